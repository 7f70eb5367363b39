"""All ranks of a parallel launch: the slowest, the mean and the fullest node."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from berth.pilot.documents import to_json, write_json
from berth.pilot.launch import Order, launcher_ends, run_one
from berth.pilot.profile import (
    Invocation,
    Measurement,
    Profile,
    Provenance,
    Quality,
    RunsOn,
    Runtime,
)
from berth.pilot.ranks import RankRecord, job_nodes, records_in, with_ranks


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Rank 0 of four: 10 s, 100 bytes, on n1."""
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return Profile(
        name="app",
        platform="here",
        workload=Invocation(command=("./app",)),
        runs_on=RunsOn(ranks=4),
        runtime=Runtime(median_s=10.0, spread_s=0.0, repeats_s=(10.0,)),
        peak_memory_bytes=100.0,
        counters={
            name: Measurement(value=value, quality=Quality.MEASURED, source=source)
            for name, value, source in (
                ("cpu_time_s", 9.0, "proc"),
                ("cycles", 27.0, "perf"),
                ("instructions", 54.0, "perf"),
                ("threads", 1.0, "proc"),
            )
        },
        provenance=Provenance(created="now", berth_version="1"),
    )


def record(rank: int, node: str, **changes: object) -> RankRecord:
    made = RankRecord(
        node=node, rank=rank, seconds=10.0, cpu_s=8.0, peak_memory_bytes=100.0, exit_status=0
    )
    return made.model_copy(update=changes)


def test_time_is_of_the_slowest_rank_and_memory_of_the_fullest_node(own: Profile) -> None:
    records = [
        record(1, "n1"),
        record(2, "n2", seconds=12.0, cpu_s=11.0, peak_memory_bytes=300.0),
        record(3, "n2"),
    ]
    found = with_ranks(own, records, nodes=2)
    assert found.runtime is not None
    assert found.runtime.median_s == 12.0
    assert found.ranks is not None
    assert (found.ranks.count, found.ranks.slowest_s, found.ranks.mean_s) == (4, 12.0, 10.5)
    assert (found.ranks.busiest_cpu_s, found.ranks.mean_cpu_s) == (11.0, 9.0)
    assert found.ranks.node_memory_bytes == 400
    assert (found.value("cpu_time_s"), found.value("cycles")) == (36.0, 108.0)
    assert (found.value("threads"), found.value("instructions_per_cycle")) == (1.0, 2.0)
    assert found.peak_memory_bytes == 800
    assert (found.runs_on.nodes, found.runs_on.ranks) == (2, 4)
    assert Profile.model_validate_json(to_json(found)) == found


def test_ranks_without_a_record_are_said_and_need_what_the_others_need(own: Profile) -> None:
    found = with_ranks(own, [record(1, "n1")], nodes=1)
    assert found.peak_memory_bytes == 400
    assert "only 2 of 4 ranks left a record" in found.warnings
    alone = with_ranks(own, [], nodes=None)
    assert alone.peak_memory_bytes == 400
    assert alone.ranks is None
    assert any("rank 0 stands for all 4 ranks" in text for text in alone.warnings)


def test_a_rank_that_failed_makes_the_run_incomplete(own: Profile) -> None:
    found = with_ranks(own, [record(n, "n1", exit_status=9 * (n == 3)) for n in (1, 2, 3)], nodes=1)
    assert not found.complete
    assert "1 of 4 ranks failed, rank 3 on n1 with exit status 9" in found.warnings


def test_broken_records_are_as_none(tmp_path: Path) -> None:
    write_json(tmp_path / "rank-1.json", record(1, "n1"))
    (tmp_path / "rank-2.json").write_text("{")
    assert [one.rank for one in records_in(tmp_path)] == [1]


def test_the_nodes_are_the_jobs() -> None:
    assert job_nodes({"SLURM_JOB_NUM_NODES": "4"}) == 4
    assert job_nodes({"SLURM_JOB_NUM_NODES": "many"}) is None
    assert job_nodes({}) is None


def test_a_rank_keeps_the_open_file_by_which_it_speaks_to_its_launcher() -> None:
    read_end, write_end = os.pipe()
    try:
        os.set_inheritable(write_end, True)
        env = {"PATH": "/usr/bin:/bin", "PMI_FD": str(write_end)}
        speaks = "import os; os.write(int(os.environ['PMI_FD']), b'cmd=init\\n')"
        done = run_one(Order((sys.executable, "-I", "-S", "-c", speaks), env))
        assert done.succeeded
        assert os.read(read_end, 100) == b"cmd=init\n"
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("number", ["", "x", "1", "987654", "9" * 18, "9" * 5_000])
def test_what_is_no_open_file_is_not_passed_on(number: str) -> None:
    assert launcher_ends({"PMI_FD": number}) == ()
