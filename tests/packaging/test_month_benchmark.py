"""The month benchmark's queues and figures, on weeks whose waits are known by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def month(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The benchmark's modules."""
    for folder in (ROOT, ROOT / "benchmarks"):
        monkeypatch.syspath_prepend(str(folder))
    from month_bench import figures, jobs, queues, sites

    yield SimpleNamespace(figures=figures, jobs=jobs, queues=queues, sites=sites)
    for name in [n for n in sys.modules if n.split(".")[0] == "month_bench"]:
        del sys.modules[name]


def _job(month, number: int, *, submit_s: float, new_s: float, cores: int, limit_s: float):
    run_s = {"old": 2.0 * new_s, "new": new_s}
    return month.jobs.Job(
        number, "ada", "ada/1", submit_s, submit_s, cores, 0, limit_s, 100, True, run_s
    )


def _took_s(month, week, cores: int, rule) -> list[float]:
    pools = {kind: month.queues.Pool(cores, of_gpus=False) for kind in ("old", "new")}
    return [took_s for took_s, _ in month.queues.simulate(week, pools, rule)]


def test_a_short_job_is_backfilled_and_a_long_one_waits(month) -> None:
    week = [
        _job(month, number, submit_s=max(0, number - 2), new_s=100, cores=10, limit_s=100)
        for number in range(4)
    ]
    week.append(_job(month, 4, submit_s=2, new_s=60, cores=5, limit_s=60))
    only_new = lambda _queues, _job: ("new",)  # noqa: E731
    assert _took_s(month, week, 45, only_new) == [100, 100, 100, 100, 60]
    assert _took_s(month, week, 40, only_new) == [100, 100, 100, 100, 158]


def test_a_job_in_a_list_starts_once_in_the_first_with_room(month) -> None:
    week = [_job(month, n, submit_s=0, new_s=100, cores=10, limit_s=1000) for n in range(8)]
    took_s = _took_s(month, week, 40, month.queues.the_list(month.sites.SITES["constant"]))
    assert took_s == [100.0] * 4 + [200.0] * 4, "four on the new nodes, four on the old"


def test_the_oracle_waits_where_that_ends_first(month) -> None:
    week = [_job(month, n, submit_s=0, new_s=100, cores=10, limit_s=1000) for n in range(4)]
    week.append(_job(month, 4, submit_s=90, new_s=100, cores=10, limit_s=1000))
    new_first = month.queues.the_list(month.sites.SITES["constant"])
    assert _took_s(month, week, 40, new_first)[-1] == 200.0, "at once on the old nodes"
    assert _took_s(month, week, 40, month.queues.oracle)[-1] == 110.0, "ten seconds for new ones"


def test_a_change_is_of_the_sums_and_its_interval_of_the_users(month) -> None:
    hours = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    flags = np.ones(2, bool)
    outcome = month.figures.Outcome(
        "constant", 0.5, np.array(["ada", "bob"]), flags, flags, hours, hours, np.ones((2, 2), bool)
    )
    change = month.figures.change(outcome, "Berth", "list")
    assert change == pytest.approx((2 / 3 - 1, -0.5, 0.0))
    assert outcome.more_core_hours == pytest.approx(2 / 3 - 1)
