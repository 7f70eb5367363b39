"""Jobs placed by the production Decider: what is known, what is not, and what fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from replay_validation import problems

from berth.pilot.errors import UsageError
from berth.policies.objectives.time_and_cost import Fastest
from berth.policies.replay import (
    Cluster,
    NodeKind,
    Partition,
    Replayed,
    Settings,
    Trace,
    replay,
    trace_of,
)
from berth.policies.replay.deciding import Decided
from berth.policies.replay.predicted import ForecastColumns
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate

CLUSTER = Cluster(
    (NodeKind("old", 1, 4, platform="slow"), NodeKind("new", 1, 4, platform="quick")),
    (Partition("old", ("old",)), Partition("new", ("new",))),
    pooled=True,
)
PLACES = [
    Candidate(p, q, p, cores_per_node=4, nodes=1) for p, q in (("old", "slow"), ("new", "quick"))
]
AT = {"old": 0, "new": 1}


def trace(slow: list[float], quick: list[float], gap: float = 100.0) -> Trace:
    size = len(slow)
    base = trace_of(
        np.arange(size) * gap, np.array(slow), np.full(size, 4), queues=("old",),
        limit_s=np.full(size, 1000.0),
    )  # fmt: skip
    return replace(base, runtime_on={"slow": np.array(slow), "quick": np.array(quick)})


def exact(jobs: Trace) -> ForecastColumns:
    return ForecastColumns(jobs.runtime_on, PLACES, spread=1.0)


def placed(jobs: Trace, **policy: object) -> Replayed:
    settings = PolicySettings(**policy)  # type: ignore[arg-type]
    decided = Decided(
        PLACES,
        AT,
        settings,
        exact(jobs),
        trace=jobs,
        cluster=CLUSTER,
    )
    replayed = replay(jobs, CLUSTER, Settings(compiled=False), decided)
    assert replayed.counts.adds_up
    assert problems(replayed) == []
    return replayed


def test_every_job_goes_where_it_is_predicted_fastest() -> None:
    replayed = placed(trace([50, 20], [10, 40]))
    assert replayed.partition.tolist() == [1, 0]
    assert replayed.end_s.tolist() == [10, 120]
    assert replayed.counts.moved == 1


def test_a_queue_in_front_of_the_faster_place_counts() -> None:
    jobs = trace([50, 50], [40, 40], gap=16.0)
    assert placed(jobs).partition.tolist() == [1, 0]


def test_a_job_whose_time_elsewhere_nobody_knows_stays_and_is_counted() -> None:
    known = trace([50, 50], [10, 10])
    truth = replace(known, runtime_on={"quick": np.array([10, np.nan])})
    decided = Decided(
        PLACES,
        AT,
        PolicySettings(),
        exact(known),
        trace=truth,
        cluster=CLUSTER,
    )
    replayed = replay(truth, CLUSTER, Settings(compiled=False), decided)
    assert replayed.partition.tolist() == [1, 0]
    assert replayed.not_judged.tolist() == [False, True]
    assert replayed.counts.not_judged == 1
    assert replayed.end_s.tolist() == [10, 150]


def test_a_job_without_any_forecast_stays() -> None:
    jobs = trace([50, 50], [10, 10])
    blank = replace(jobs, runtime_on={k: np.full(2, np.nan) for k in jobs.runtime_on})
    replayed = placed(blank)
    assert (replayed.counts.moved, replayed.counts.not_judged) == (0, 0)
    assert replayed.partition.tolist() == [0, 0]


def test_a_policy_that_raises_is_named_with_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: Fastest, _offer: object) -> float:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(Fastest, "score", broken)
    with pytest.raises(UsageError, match="policy fastest failed on job 0: ZeroDivisionError"):
        placed(trace([50], [10]))


class OneByOne:
    """Asks for each job alone: it does not say when the states are the same."""

    def __init__(self, decided: Decided) -> None:
        self.place = decided.place


def test_jobs_that_are_asked_for_together_go_where_each_alone_goes() -> None:
    rng = np.random.default_rng(3)
    jobs = trace(*(rng.choice((20.0, 50.0, 90.0), 80).tolist() for _ in range(2)), gap=4.0)

    def run(together: bool) -> Replayed:
        decided = Decided(
            PLACES,
            AT,
            PolicySettings(),
            exact(jobs),
            trace=jobs,
            cluster=CLUSTER,
        )
        how = decided if together else OneByOne(decided)
        return replay(jobs, CLUSTER, Settings(compiled=False), how)

    one, other = run(True), run(False)
    assert one.partition.tolist() == other.partition.tolist()
    assert one.start_s.tolist() == other.start_s.tolist()
    assert set(one.partition.tolist()) == {0, 1}
