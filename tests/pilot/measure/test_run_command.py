"""``berth pilot run`` as a user meets it: real counters, clear failures, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from warm_berth import FRESH, run_berth

from berth.pilot.catalogue import BY_NAME
from berth.pilot.documents import read_json
from berth.pilot.profile import Profile, Quality

Program = Callable[[str], str]


def berth(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_berth("pilot", "run", *arguments, env=env)


def profile_of(*arguments: str) -> Profile:
    done = berth("--json", "-q", *arguments)
    assert done.returncode == 0, done.stderr
    return Profile.model_validate_json(done.stdout)


@pytest.mark.valgrind
def test_a_program_becomes_a_profile_with_real_counters(
    program: Program, work: Path, valgrind: None
) -> None:
    done = berth("--count", "--counters", "-o", "triad.json", "--", program("triad"), "20000")
    assert done.returncode == 0, done.stderr
    profile = read_json(work / "triad.json", Profile)
    assert profile.complete
    assert profile.runtime is not None
    assert len(profile.runtime.repeats_s) == 1
    assert set(profile.counters) == set(BY_NAME)
    assert profile.value("fp64_ops") == pytest.approx(160_000, rel=0.01)
    assert profile.counters["fp64_ratio"].quality is Quality.DERIVED
    assert profile.counters["page_faults"].quality is Quality.MEASURED
    assert profile.counters["warp_blocks"].note
    assert {report.name for report in profile.collectors} >= {"proc", "perf", "nvml", "emulator"}
    assert "instructions" in done.stdout
    assert "emulated" in done.stdout
    assert "limited by" in done.stdout
    assert "of processor time for this pilot" in done.stdout
    assert "counting: one more run under emulation" in done.stderr
    # The program's own output is shown, and not among the results.
    assert "59998" in done.stderr or "70000" in done.stderr
    assert "Traceback" not in done.stderr


def test_results_alone_are_on_standard_output_with_json(program: Program) -> None:
    done = berth("--json", "--", "sh", "-c", "echo loud; echo err >&2")
    assert json.loads(done.stdout)["schema"] == "berth.profile/1"
    assert "loud" in done.stderr


def test_sizes_and_threads_are_timed(program: Program) -> None:
    profile = profile_of(
        *("--repeats", "1", "--sizes", "2,64", "--threads-sweep", "1,2"),
        *("--", program("hold"), "{size}", "20"),
    )
    assert profile.workload.size == 2
    assert [point.size for point in profile.sizes] == [2, 64]
    small, large = (point.peak_memory_bytes for point in profile.sizes)
    assert large - small == pytest.approx(62 * 2**20, rel=0.2)
    assert [point.threads for point in profile.scaling] == [1, 2]
    assert profile.name == "hold-2"


def test_the_threads_of_a_sweep_are_told_to_the_program(program: Program) -> None:
    profile = profile_of(
        *("--repeats", "1", "--threads-sweep", "3"),
        *("--", "sh", "-c", 'test "${OMP_NUM_THREADS:-3}" = 3'),
    )
    assert [point.threads for point in profile.scaling] == [3]


def test_the_user_can_say_what_it_runs_on() -> None:
    profile = profile_of(
        *("--runs-on", "cuda", "--needs", "avx512f", "--threads", "8"),
        *("--ranks", "4", "--name", "mine", "--platform", "node-a", "--", "true"),
    )
    assert profile.name == "mine"
    assert profile.platform == "node-a"
    assert [target.value for target in profile.runs_on.targets] == ["cuda"]
    assert profile.runs_on.instruction_sets == ("avx512f",)
    assert (profile.runs_on.threads, profile.runs_on.ranks) == (8, 4)


def test_a_failing_program_is_told_kept_and_exits_1(work: Path) -> None:
    done = berth("-o", "p.json", "--", "sh", "-c", "exit 3")
    assert done.returncode == 1
    assert "exit status 3" in done.stdout
    profile = read_json(work / "p.json", Profile)
    assert profile.exit_status == 3
    assert not profile.complete
    assert profile.runtime is None
    assert profile.value("cpu_time_s") is not None


def test_the_time_limit_is_told_and_what_was_measured_kept(work: Path) -> None:
    done = berth("-q", "-o", "p.json", "--time-limit", "0.5", "--", "yes")
    assert done.returncode == 1
    assert "time limit" in done.stdout
    assert "pilot a smaller problem" in done.stdout
    profile = read_json(work / "p.json", Profile)
    assert profile.runtime is None
    assert 0 < (profile.runtime_at_least_s or 0) < 60
    assert (profile.value("io_bytes_written") or 0) > 1_000_000


@pytest.mark.slow
def test_work_that_goes_on_in_the_background_is_not_the_programs_measurement() -> None:
    work = "(while :; do :; done) &"
    done = berth("--repeats", "1", "--", "sh", "-c", work)
    assert done.returncode == 1
    assert "went on in the background" in done.stdout


def test_children_left_behind_are_told(program: Program) -> None:
    done = berth("--repeats", "1", "--", program("orphan"))
    assert done.returncode == 0
    assert "left 1 process behind" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--", "no-such-program"), "command not found"),
        (("--", "/tmp"), "is a folder"),
        (("--sizes", "1,2", "--", "true"), "needs {size}"),
        (("--", "true", "{size}"), "no size was given"),
        (("--collectors", "magic", "--", "true"), "there is no collector 'magic'"),
        (("--name", "a b", "--", "true"), "is not a name"),
        (("--platform", "", "--", "true"), "is not a name"),
        (("--sizes", "1,x", "--", "true"), "not a list of numbers"),
        (("--size", "nan", "--", "true", "{size}"), "must be above 0"),
        (("--size", "-1", "--", "true", "{size}"), "must be above 0"),
        (("--threads-sweep", "1.5", "--", "true"), "whole numbers"),
        (("--runs-on", "fpga", "--", "true"), "cpu, cuda, hip"),
        (("--repeats", "0", "--", "true"), "at least 1"),
        (("--time-limit", "0", "--", "true"), "above 0"),
        (("--time-limit", "nan", "--", "true"), "above 0"),
        (("--stdin", "no-file", "--", "true"), "not a file"),
        (("-o", "no/folder/p.json", "--", "true"), "does not exist"),
        (("-o", ".", "--", "true"), "is a folder"),
        ((), "COMMAND"),
    ],
)
def test_wrong_usage_is_one_clear_sentence_and_status_2(
    arguments: tuple[str, ...], said: str, work: Path
) -> None:
    done = berth(*arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(work.iterdir()) == []


def test_standard_input_can_be_a_file(work: Path) -> None:
    (work / "in.txt").write_text("hello\n")
    script = 'read x && test "$x" = hello'
    done = berth("--stdin", "in.txt", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stdout


_DEFAULT = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_stop_keeps_a_partial_profile_and_leaves_no_process(
    work: Path, told: signal.Signals
) -> None:
    command = (*FRESH, "pilot", "run", "-q", "-o", "p.json", "--", "sleep", "300")
    # Under nohup a child inherits SIGHUP as ignored, and rightly goes on.
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(told, _DEFAULT[told]),  # noqa: PLW1509 - one thread
    ) as pilot:
        sleeping = _await_sleeper(pilot.pid)
        pilot.send_signal(told)
        out, _ = pilot.communicate()
    assert pilot.returncode == 1
    assert b"interrupted" in out
    assert not sleeping.is_running() or sleeping.status() == psutil.STATUS_ZOMBIE
    assert not read_json(work / "p.json", Profile).complete


def _await_sleeper(pid: int) -> psutil.Process:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for process in psutil.Process(pid).children(recursive=True):
            try:
                if process.name() == "sleep":
                    return process
            except psutil.Error:
                continue
        time.sleep(0.01)
    raise AssertionError("the program was not started")


@pytest.mark.slow
def test_an_interrupted_emulation_keeps_the_native_part(
    program: Program, work: Path, valgrind: None
) -> None:
    command = (*FRESH, "pilot", "run", "--count", "-q", "-o", "p.json", "--repeats", "1", "--")
    with subprocess.Popen((*command, program("hold"), "1", "1500")) as pilot:
        until = time.monotonic() + 30
        while not _runs_valgrind(pilot.pid) and time.monotonic() < until:
            time.sleep(0.02)
        pilot.send_signal(signal.SIGINT)
        pilot.wait()
    profile = read_json(work / "p.json", Profile)
    assert profile.runtime is not None
    assert not profile.complete


def _runs_valgrind(pid: int) -> bool:
    found = False
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found |= "valgrind" in " ".join(process.cmdline())
        except psutil.Error:
            continue
    return found


def test_temporary_files_are_removed(program: Program, tmp_path: Path, valgrind: None) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = berth(
        "-q", "--count", "--", program("triad"), "10", env={**os.environ, "TMPDIR": str(scratch)}
    )
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []


def test_nothing_heavy_is_imported_to_measure() -> None:
    code = (
        "import sys, berth.plugin.cli.pilot.run\n"
        "heavy = {'torch', 'xgboost', 'pandas', 'sklearn', 'numpy', 'onnxruntime'}\n"
        "print(heavy & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
