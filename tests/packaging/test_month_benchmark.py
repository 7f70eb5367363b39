"""The month benchmark's queue simulation, on weeks whose waits are known by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def month(monkeypatch: pytest.MonkeyPatch) -> tuple[type, object]:
    """Return the class of a job and the module that simulates queues."""
    for folder in (ROOT, ROOT / "benchmarks"):
        monkeypatch.syspath_prepend(str(folder))
    from month_bench import queues
    from month_bench.jobs import Job

    yield Job, queues
    for name in [n for n in sys.modules if n.split(".")[0] == "month_bench"]:
        del sys.modules[name]


def _job(month, number: int, *, submit_s: float, new_s: float, cores: int, request_s: float):
    job, _ = month
    return job(
        number, "ada", "physics", "app", submit_s, submit_s, new_s, 2.0, cores, request_s, 100, True
    )


def test_a_short_job_is_backfilled_and_a_long_one_waits(month) -> None:
    queues = month[1]
    week = [
        _job(month, 0, submit_s=0, new_s=100, cores=10, request_s=100),
        _job(month, 1, submit_s=0, new_s=100, cores=10, request_s=100),
        _job(month, 2, submit_s=0, new_s=100, cores=10, request_s=100),
        _job(month, 3, submit_s=1, new_s=100, cores=10, request_s=100),
        _job(month, 4, submit_s=2, new_s=60, cores=5, request_s=60),
    ]
    assert queues.simulate(week, 45, queues.in_order("new"), []) == [100, 100, 100, 100, 60]
    assert queues.simulate(week, 40, queues.in_order("new"), []) == [100, 100, 100, 100, 158]


def test_a_job_in_both_queues_starts_once_in_the_first_with_room(month) -> None:
    queues = month[1]
    week = [_job(month, n, submit_s=0, new_s=100, cores=10, request_s=1000) for n in range(8)]
    took_s = queues.simulate(week, 40, queues.in_order("new", "old"), [])
    assert took_s == [100.0] * 4 + [200.0] * 4, "four on the new nodes, four on the old"


def test_the_earliest_end_weighs_the_wait_against_the_slower_kind(month) -> None:
    queues = month[1]
    first = [_job(month, n, submit_s=0, new_s=1000, cores=10, request_s=1000) for n in range(4)]
    last = _job(month, 4, submit_s=1, new_s=100, cores=10, request_s=100)
    rule = queues.earliest_end(lambda job: job.ratio)
    took_s = queues.simulate([*first, last], 40, rule, [last])
    assert took_s[-1] == 160.0, "at once on the old nodes"
