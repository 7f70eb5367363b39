"""Places are narrowed by a ratio that is known well, whatever is known of the job's own time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from policy_builders import GIB, H, cpu, decided, forecast, request, state, states

from berth.policies.codes import Ground
from berth.policies.list_order import ends_later
from berth.policies.settings import FitSettings, PolicySettings
from berth.policies.values import Candidate, Decision
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)

SETTINGS = PolicySettings(list_queues=True, fit=FitSettings())
OLD = cpu("old", platform="haswell", speed_rank=1)
NEW = cpu("new", platform="genoa")


def curve(platform: str, mid_s: float, width: float, own: float | None, **more: Any):
    """One point with a time within a factor of ``exp(width)``, ``exp(own)`` of it its own."""
    point = Prediction(
        "app", platform, 8, 0, Basis.MEASURED, Interval(1, 1, 1),
        Interval(mid_s * math.exp(-width), mid_s, mid_s * math.exp(width)),
        MemoryUse(Interval(GIB, GIB, GIB)), None, Bound.UNKNOWN, own_log_width=own,
        usual_ratio=1.0,
    )  # fmt: skip
    return PredictionCurve((replace(point, **more),))


def placed(
    old_s: float, new_s: float, *, width: float = 4.0, own: float = 0.05, **changes: Any
) -> Decision:
    """The decision on a job of ``auto`` that is known from its history."""
    curves = {"haswell": curve("haswell", old_s, width, own)}
    if new_s:
        curves["genoa"] = curve("genoa", new_s, width, own)
    known = replace(forecast(), kind="history", curves=changes.pop("curves", curves))
    asked = request(queue="auto", wants_placement=True, tasks=8, time_limit_s=10 * H)
    return decided(asked, (OLD, NEW), known, **{"settings": SETTINGS, **changes})


def chosen(decision: Decision) -> str | None:
    return None if decision.edit is None else decision.edit.queue


def busy(place: Candidate, pending: int, wait_s: float | None = None) -> Mapping[str, Any]:
    """The place is full; ``wait_s``: the simulated wait there."""
    waits = None
    if wait_s is not None:
        waits = WaitTable((1,), (1.0,), ((Interval(wait_s, wait_s, wait_s),),))
    full = state(idle_cores=0, pending_jobs=pending, waits=waits)
    return {**states(OLD, NEW), place.name: full}


def test_a_wide_time_over_the_limit_on_both_is_placed_by_the_ratio() -> None:
    assert chosen(placed(1600, 1000, width=12.0)) == "new,old"
    decision = placed(16_000, 100, width=12.0, now=busy(NEW, 1, wait_s=1.0))
    assert (decision.code, chosen(decision)) == ("fits-one", "new")
    assert decision.ground is Ground.POPULATION
    assert "ends first; on old it takes 1.6e+02 times as long as on new" in decision.reason
    assert {r.candidate: r.code for r in decision.ranked} == {"new": None, "old": "slower"}


def test_a_faster_kind_is_not_over_the_limit_where_a_slower_one_is_within_it() -> None:
    less_known = {
        "haswell": curve("haswell", 4 * H, 0.7, 0.01),
        "genoa": curve("genoa", 3 * H, 1.5, 1.3),
    }
    decision = placed(4 * H, 3 * H, curves=less_known)  # upper ends: 8 and 13 h of 10
    assert (chosen(decision), decision.edit.time_limit_s) == ("new,old", None)
    slower = {
        "haswell": curve("haswell", 4 * H, 0.7, 0.01),
        "genoa": curve("genoa", 5 * H, 1.5, 1.3),
    }
    assert chosen(placed(4 * H, 5 * H, curves=slower)) == "old"


def test_a_ratio_that_is_not_surely_beyond_1_gives_an_ordered_list() -> None:
    assert chosen(placed(1600, 1000, width=12.0, own=0.5)) == "new,old"
    assert chosen(placed(1000, 1100, width=12.0, own=0.5)) == "new,old"
    assert chosen(placed(1000, 1600, width=12.0, own=0.1)) == "old,new"
    assert chosen(placed(1000, 1600, width=3.0, own=0.1)) == "old,new"


def test_a_place_that_may_start_the_job_sooner_is_listed_beside_a_busy_one() -> None:
    assert chosen(placed(1600, 1000, now=busy(NEW, 5))) == "new,old"
    assert chosen(placed(48_000, 1000, width=0.3, now=busy(NEW, 5))) == "new"


def test_a_kind_where_nothing_is_predicted_stays_in_the_list() -> None:
    decision = placed(1000, 0)
    assert (decision.code, chosen(decision)) == ("fits", "new,old")


def test_a_queue_without_a_known_time_does_not_hide_what_is_known_of_others() -> None:
    """A scheduler without lists gets the queue where the job is expected to end first."""
    third = cpu("third", platform="other", speed_rank=2)
    curves = {
        "haswell": curve("haswell", 1000, 4.0, 0.05),
        "genoa": curve("genoa", 1600, 4.0, 0.05),
    }
    known = replace(forecast(), kind="history", curves=curves)
    asked = request(queue="auto", wants_placement=True, tasks=8, time_limit_s=10 * H)
    settings = PolicySettings(fit=FitSettings())
    places = (OLD, NEW, third)

    def queue(**busy_s: float) -> str | None:
        now = dict(states(*places))
        for name, wait_s in busy_s.items():
            waits = WaitTable((1,), (1.0,), ((Interval(wait_s, wait_s, wait_s),),))
            now[name] = state(idle_cores=0, pending_jobs=1, waits=waits)
        return chosen(decided(asked, places, known, settings=settings, now=now))

    assert queue() == "old"
    assert queue(old=300.0) == "old"
    assert queue(old=900.0) == "new"
    assert queue(old=900.0, new=900.0) == "third"


def test_an_unknown_programs_typical_time_orders_and_never_narrows() -> None:
    curves = {
        name: curve(name, seconds, 4.0, 0.05, abstained="no run of it is known")
        for name, seconds in (("haswell", 1000.0), ("genoa", 1600.0))
    }
    decision = placed(0, 0, curves=curves)
    assert (decision.code, chosen(decision)) == ("fits", "old,new")
    assert "the one where it is fastest comes first" in decision.reason


def test_a_simulated_wait_of_the_slower_place_counts() -> None:
    ranked = {r.candidate: r for r in placed(1600, 1000).ranked}
    assert ends_later(ranked["old"], 1900.0, ranked["new"], 1800.0)
    assert not ends_later(ranked["old"], 0.0, ranked["new"], 1800.0)
    assert not ends_later(ranked["old"], 600.0, ranked["new"], 1800.0)


@pytest.mark.parametrize(("own", "wait_s", "expected"), [
    (0.05, 0.0, True), (0.05, 20.0, True), (0.05, 80.0, False), (0.5, 0.0, False),
])  # fmt: skip
def test_a_job_ends_later_only_beyond_the_ratios_interval_and_the_wait(
    own: float, wait_s: float, expected: bool
) -> None:
    ranked = {r.candidate: r for r in placed(1600, 1000, own=own).ranked}
    assert ends_later(ranked["old"], 0.0, ranked["new"], wait_s) is expected
    assert not ends_later(ranked["new"], 0.0, ranked["old"], 0.0)
