"""perf counts the jobs that the list names from their start to their end, and never fails a node.

A stub stands for perf, since few machines of tests have hardware counters; the real perf counts
software events where it can.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from job_trees import plant
from perf_stub import COUNTS, STUB
from slurm_cluster import wait_until

from berth.pilot.usage import at_job_end, at_job_start
from berth.pilot.usage.line import UsageLine, parse_line

FOLDER = Path(at_job_end.__file__).resolve().parent
UNIFIED = next((p for p in map(Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"))
                if (p / "cgroup.controllers").exists()), None)  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """The environment of a job of alice on a node whose spool lists her for one job in 20."""
    stub, spool = tmp_path / "perf", tmp_path / "spool"
    stub.write_text(STUB)
    stub.chmod(0o755)
    (tmp_path / "perf.csv").write_text(COUNTS)
    spool.mkdir()
    (spool / at_job_end.LIST).write_text("one in 20\nalice\nbob\n")
    plant(tmp_path / "cg", "40")
    return {
        "SLURM_JOB_ID": "40",
        "SLURM_JOB_USER": "alice",
        "SLURMD_NODENAME": "n1",
        "BERTH_USAGE_CGROUPS": str(tmp_path / "cg"),
        "BERTH_USAGE_SPOOL": str(spool),
        "BERTH_USAGE_RUN": str(tmp_path / "run"),
        "BERTH_USAGE_PERF": str(stub),
        "BERTH_USAGE_DEADLINE_MS": "20000",
    }


def run(module: str, environ: Mapping[str, str]) -> None:
    """Run a module as its script does."""
    code = f"import sys; sys.path.append(sys.argv[1]); import {module}; {module}.main()"
    words = [sys.executable, "-I", "-S", "-c", code, str(FOLDER)]
    done = subprocess.run(words, env=dict(environ), capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def start(environ: Mapping[str, str]) -> None:
    """Start a job, and wait for perf."""
    run("at_job_start", environ)
    words = Path(environ["BERTH_USAGE_PERF"] + ".words")
    wait_until(lambda: words.exists() and words.read_text().endswith("\n"), "perf runs", 20)


def end(environ: Mapping[str, str]) -> UsageLine:
    """End a job, and return its line."""
    run("at_job_end", environ)
    (file,) = Path(environ["BERTH_USAGE_SPOOL"]).glob("*.usage")
    return parse_line(file.read_text(), file.name)


def test_a_listed_users_job_is_counted_from_its_start_to_its_end(
    node: dict[str, str], tmp_path: Path
) -> None:
    start(node)
    words = (tmp_path / "perf.words").read_text().split()
    assert words[words.index("-G") + 1] == "/system.slice/slurmstepd.scope/job_40"
    assert words.index("-e") < words.index("-G"), "perf takes the group for the events before it"
    line = end(node)
    assert line.counts == (
        "8000000,,instructions:u,24000,75.00,,",
        "<not supported>,,L1-dcache-stores:u,0,100.00,,",
        "244.07,msec,task-clock,244066134,100.00,0.162,CPUs utilized",
    )
    assert line.memory_peak_bytes == 123456789
    assert line.lacks == ()
    assert list((tmp_path / "run").iterdir()) == [], "nothing is left on the node"


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_JOB_ID": "41"},
        {"SLURM_JOB_USER": "carol"},
        {"SLURM_JOB_USER": ""},
        {"SLURM_JOB_NUM_NODES": "2"},
        {"SLURM_JOB_GPUS": "0"},
        {"SLURM_STEP_ID": "0"},
        {"SLURM_LOCALID": "3"},
        {"BERTH_USAGE_SPOOL": "/nonexistent"},
    ],
)
def test_other_jobs_are_not_counted(node: dict[str, str], change: dict[str, str]) -> None:
    assert at_job_start.is_wanted(node)
    assert not at_job_start.is_wanted({**node, **change})


@pytest.mark.parametrize("text", ["", "one in 0\nalice\n", "one in x\nalice\n", "\xff", "alice\n"])
def test_a_list_that_is_none_counts_nobody(node: dict[str, str], text: str) -> None:
    (Path(node["BERTH_USAGE_SPOOL"]) / at_job_end.LIST).write_text(text)
    assert not at_job_start.is_wanted(node)


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT GIVES FILES AWAY")
def test_a_list_that_another_user_left_in_the_spool_is_not_read(node: dict[str, str]) -> None:
    os.chown(Path(node["BERTH_USAGE_SPOOL"]) / at_job_end.LIST, 12345, 12345)
    assert not at_job_start.is_wanted(node)


def test_perf_that_may_not_count_is_told_of_in_the_line(
    node: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "perf").write_text("#!/bin/sh\necho 'Error:\nNo permission; x' >&2; exit 1\n")
    run("at_job_start", node)
    wait_until(lambda: bool(list(tmp_path.glob("run/*/errors"))), "perf has begun", 20)
    time.sleep(0.1)
    line = end(node)
    assert line.counts == ()
    assert line.lacks == ("perf: Error: No permission, x",)


def test_a_node_without_perf_is_told_of_in_the_line(node: dict[str, str], tmp_path: Path) -> None:
    run("at_job_start", {**node, "BERTH_USAGE_PERF": "/nonexistent/perf"})
    wait_until(lambda: bool(list(tmp_path.glob("run/*/pid"))), "the child has begun", 20)
    time.sleep(0.1)
    (lack,) = end(node).lacks
    assert lack.startswith("perf: FileNotFoundError")


def test_perf_that_does_not_end_costs_the_deadline_and_not_the_line(
    node: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "perf").write_text(STUB.replace("exit 0' INT", ":' INT"))
    start(node)
    begun_s = time.monotonic()
    line = end({**node, "BERTH_USAGE_DEADLINE_MS": "1000"})
    assert time.monotonic() - begun_s < 15
    assert line.lacks == ("perf: no answer in time",)
    assert line.memory_peak_bytes == 123456789
    (pid,) = tmp_path.glob("run/*/pid")
    os.kill(int(pid.read_text()), 9)


def test_perf_gets_more_time_than_a_job_that_is_not_counted(
    node: dict[str, str],
) -> None:
    del node["BERTH_USAGE_DEADLINE_MS"]
    assert at_job_end._deadline_s(node) == at_job_end.DEADLINE_S
    Path(at_job_end.counts_folder(node, "40")).mkdir(parents=True)
    assert at_job_end._deadline_s(node) == at_job_end.COUNTED_DEADLINE_S


def test_a_folder_that_was_there_before_is_neither_used_nor_believed(
    node: dict[str, str], tmp_path: Path
) -> None:
    """In /tmp anybody may make one: of another user it is not read."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f"berth-perf-{os.geteuid()}-40").symlink_to(tmp_path)
    run("at_job_start", node)
    assert end(node).counts == ()


def test_a_number_that_another_process_has_by_now_is_left_alone(
    node: dict[str, str], tmp_path: Path
) -> None:
    folder = Path(at_job_end.counts_folder(node, "40"))
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other:
        (folder / "pid").write_text(str(other.pid))
        line = end(node)
        assert other.poll() is None
        other.kill()
    assert line.lacks == ("perf: it wrote no counts",)


@pytest.mark.skipif(not Path(at_job_start.PERF).exists(), reason="NO perf HERE")
@pytest.mark.skipif(UNIFIED is None or os.geteuid() != 0, reason="NO CGROUP v2 TO WRITE HERE")
def test_the_real_perf_counts_a_control_group(node: dict[str, str], real_group: Path) -> None:
    assert UNIFIED is not None
    environ = {key: value for key, value in node.items() if key != "BERTH_USAGE_PERF"}
    environ |= {"BERTH_USAGE_CGROUPS": str(UNIFIED), "SLURM_JOB_ID": "987654320"}
    run("at_job_start", environ)
    counts = Path(at_job_end.counts_folder(environ, "987654320")) / "counts"
    wait_until(lambda: counts.exists() or (counts.with_name("errors").read_text() != ""),
               "perf counts", 20)  # fmt: skip
    if not counts.exists():
        pytest.skip(f"perf may not count here: {counts.with_name('errors').read_text()[:200]}")
    loop = f"echo $$ > {real_group}/cgroup.procs; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
    subprocess.run(["sh", "-c", loop], check=True)
    line = end(environ)
    (clock,) = [count for count in line.counts if ",task-clock," in count]
    assert float(clock.split(",")[0]) > 1.0
    assert len(line.counts) == len(at_job_start.EVENTS) + 1


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A control group of the kernel's, where Slurm would make a job's."""
    assert UNIFIED is not None
    group = UNIFIED / "system.slice" / "slurmstepd.scope" / "job_987654320"
    made = [folder for folder in (group.parent.parent, group.parent) if not folder.exists()]
    try:
        group.mkdir(parents=True)
    except OSError as problem:
        pytest.skip(f"NO CONTROL GROUP CAN BE MADE HERE: {problem}")
    yield group
    for folder in (group, *reversed(made)):
        with suppress(OSError):
            folder.rmdir()
