"""Programs that fail, hang, flood or leave children behind: it is said, and none stays."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from berth.pilot.collectors.proc import ProcCollector, peak_memory, steady_rate
from berth.pilot.errors import UsageError
from berth.pilot.launch import (
    SHEPHERD,
    Order,
    ProcessResult,
    as_message,
    resolve_command,
    run_one,
)

MIB = 2**20
Program = Callable[[str], str]


def order(*command: str, **more: object) -> Order:
    base = Order(resolve_command(command, os.environ), dict(os.environ))
    return Order(
        **{**{name: getattr(base, name) for name in Order.__slots__}, **more}  # type: ignore[arg-type]
    )


def marked(mark: str) -> list[int]:
    """Processes that have ``mark`` in their environment or arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and (
                process.environ().get("BERTH_TEST_MARK") == mark
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def run_marked(mark: str, *command: str, **more: object) -> ProcessResult:
    return run_one(order(*command, env={**os.environ, "BERTH_TEST_MARK": mark}, **more))


@pytest.mark.parametrize("status", [0, 3, 255])
def test_the_exit_status_is_the_programs(status: int) -> None:
    outcome = run_one(order("sh", "-c", f"exit {status}"))
    assert (outcome.exit_code, outcome.signal) == (status, None)
    assert outcome.succeeded is (status == 0)


def test_a_killed_program_is_named_with_its_signal(program: Program) -> None:
    outcome = run_one(order(program("segv")))
    assert outcome.signal == signal.SIGSEGV
    assert "SIGSEGV" in outcome.describe()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program-here",), "command not found"),
        (("./no/such/path",), "command not found"),
        (("/tmp",), "is a folder"),
        (("",), "no command"),
        ((), "no command"),
    ],
)
def test_a_command_that_cannot_be_found_is_refused(command: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        resolve_command(command, {"PATH": "/usr/bin:/bin"})
    assert caught.value.exit_status == 2


def test_a_file_that_is_no_program_is_refused(work: Path) -> None:
    script = work / "data.bin"
    script.write_bytes(b"\x00\x01\x02")
    with pytest.raises(UsageError, match="not executable"):
        resolve_command((str(script),), os.environ)
    script.chmod(0o755)
    with pytest.raises(UsageError, match="could not be started"):
        run_one(order(str(script)))


def test_children_in_the_background_of_a_shell_are_ended() -> None:
    outcome = run_marked(
        "background", "sh", "-c", "sleep 300 & setsid sleep 301 & exit 0", leftover_grace_s=0.1
    )
    assert outcome.leftover >= 2
    assert marked("background") == []


def test_a_program_that_ends_in_the_grace_is_not_killed() -> None:
    outcome = run_one(order("sh", "-c", "sleep 0.2 & exit 0", leftover_grace_s=5.0))
    assert outcome.leftover == 0


def test_the_time_limit_cuts_even_a_program_that_ignores_sigterm() -> None:
    started = time.monotonic()
    outcome = run_marked(
        "deaf",
        *("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"),
        time_limit_s=0.3,
        cut_grace_s=0.3,
    )
    assert outcome.cut == "time limit"
    assert outcome.signal == signal.SIGKILL
    assert time.monotonic() - started < 10
    assert marked("deaf") == []


def test_gigabytes_of_output_are_drained_and_bounded() -> None:
    outcome = run_one(order("sh", "-c", "head -c 300000000 /dev/zero; echo end; echo err >&2"))
    assert outcome.exit_code == 0
    assert outcome.output_bytes == 300_000_000 + 8
    assert len(outcome.output_tail) <= 65_536
    assert outcome.output_tail.endswith("end\nerr\n")


def test_output_beyond_the_limit_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    run_one(order("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x", forward_bytes=1000))
    shown = capfd.readouterr().err
    assert shown.startswith("x" * 1000 + "\n[berth: further output")
    assert shown.count("x") == 1000


def test_standard_input_is_empty_and_there_is_no_terminal(work: Path) -> None:
    assert run_one(order("sh", "-c", "read line")).exit_code == 1
    assert run_one(order("sh", "-c", ": < /dev/tty")).exit_code not in (0, None)
    (work / "in").write_text("hello\n")
    assert run_one(order("sh", "-c", "read x; test $x = hello", stdin="in")).exit_code == 0


def test_other_children_of_the_caller_are_left_alone() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 0.3; exit 7"]) as bystander:
        run_one(order("sh", "-c", "sleep 0.1 & exit 0"))
        assert bystander.wait() == 7


def test_peak_memory_is_exact_for_one_process(program: Program) -> None:
    peak = peak_memory(run_one(order(program("hold"), "64", "1")))
    assert peak is not None
    assert 64 * MIB <= peak.bytes < 67 * MIB
    assert peak.note is None


def test_peak_memory_does_not_include_that_of_the_caller(program: Program) -> None:
    ballast = bytearray(300 * MIB)
    peak = peak_memory(run_one(order(program("hold"), "1", "30")))
    del ballast
    assert peak is not None
    assert peak.bytes < 20 * MIB


def test_peak_memory_is_the_sum_over_processes_at_once(program: Program) -> None:
    outcome = run_one(order(program("pair"), "40"))
    bound = peak_memory(outcome)
    assert bound is not None
    assert 80 * MIB <= bound.bytes < 90 * MIB
    assert bound.is_bound
    exact = peak_memory(outcome, (81.0 * MIB, 82.0 * MIB))
    assert exact is not None
    assert 81 * MIB <= exact.bytes <= 82 * MIB
    assert not exact.is_bound


def test_io_and_faults_of_children_are_counted(work: Path) -> None:
    outcome = run_one(order("sh", "-c", "head -c 5000000 /dev/zero > out; cat out out > twice"))
    counters = ProcCollector().finish(outcome).counters
    written = counters["io_bytes_written"].value or 0
    assert 15_000_000 <= written < 15_100_000
    assert (counters["page_faults"].value or 0) > 100


def test_ctrl_c_ends_the_program_and_keeps_what_was_measured() -> None:
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from berth.pilot.launch import Interrupted, Order, run_one\n"
        "try:\n"
        "    run_one(Order(('/bin/sleep', '300'), {'BERTH_TEST_MARK': 'interrupted'}))\n"
        "except Interrupted as stop:\n"
        "    print(stop.outcome.cut)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as pilot:
        until = time.monotonic() + 20
        while not marked("interrupted") and time.monotonic() < until:
            time.sleep(0.01)
        pilot.send_signal(signal.SIGINT)
        said, _ = pilot.communicate()
    assert said.split() == [b"ended"]
    assert marked("interrupted") == []


def test_the_program_ends_when_its_pilot_is_killed(work: Path) -> None:
    code = (
        "import os\n"
        "from berth.pilot.launch import Order, run_one\n"
        "run_one(Order(('/bin/sleep', '300'), {'BERTH_TEST_MARK': 'abandoned'}))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as pilot:
        until = time.monotonic() + 20
        while not marked("abandoned") and time.monotonic() < until:
            time.sleep(0.01)
        assert marked("abandoned")
        pilot.kill()
    until = time.monotonic() + 20
    while marked("abandoned") and time.monotonic() < until:
        time.sleep(0.01)
    assert marked("abandoned") == []


def test_a_run_ends_at_its_limit_of_processor_time_and_not_by_the_clock() -> None:
    busy = ("sh", "-c", "sleep 1; (while :; do :; done)")
    ended = run_one(Order(busy, dict(os.environ), cpu_limit_s=0.5, cut_grace_s=1.0))
    assert ended.cut == "processor time"
    assert ended.wall_s > 1.4
    assert "s of processor time" in ended.describe()
    asleep = run_one(Order(("sleep", "1"), dict(os.environ), cpu_limit_s=0.5))
    assert asleep.succeeded


@pytest.mark.parametrize(
    "launcher", ["srun-of-no-site/mpirun", "/no/such/mpiexec.hydra", "prterun"]
)
def test_an_mpi_launcher_that_is_missing_is_said_with_what_to_do(launcher: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve_command((launcher, "-n", "2", "./app"), {"PATH": "/nowhere"})
    assert "no such MPI launcher" in raised.value.message
    assert "module" in (raised.value.hint or "")


def test_a_report_is_whole_when_its_job_was_stopped_in_the_middle_of_it() -> None:
    asked = Order(("head", "-c", "65536", "/dev/urandom"), dict(os.environ), sample=False)
    shepherd = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHEPHERD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert shepherd.stdin is not None
    assert shepherd.stdout is not None
    shepherd.stdin.write(as_message(asked))
    shepherd.stdin.flush()
    wait = Path(f"/proc/{shepherd.pid}/wchan")
    until = time.monotonic() + 5
    while "pipe_write" not in wait.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    shepherd.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    shepherd.send_signal(signal.SIGCONT)
    answer, _ = shepherd.communicate()
    assert marshal.loads(answer)["output_bytes"] == 65_536  # noqa: S302


def test_output_at_a_constant_rate_tells_how_long_a_cut_program_would_take() -> None:
    even = [(0.2 * tick, 100 * tick) for tick in range(60)]
    assert steady_rate(even) == pytest.approx(500.0)
    assert steady_rate(even[:10]) is None
    assert steady_rate([(at, 0) for at, _ in even]) is None
    assert steady_rate([(at, count**2) for at, count in even]) is None
    cut = replace(ProcessResult(), cut="time limit", wall_s=12.0)
    assert ProcCollector().finish(cut).warnings == ()
