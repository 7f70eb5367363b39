"""Candidates listed beside the best: those that cannot be told apart, or help if it is late."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from policy_builders import CPU, NOW_S, cpu, curve, decided, forecast, request, state, states

from berth.policies import Decider, PolicySettings, Weights
from berth.policies.settings import ListBy
from berth.policies.waits import WaitTable
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Interval

LISTS = PolicySettings(list_queues=True)
PLACES = (CPU, cpu("other"))


def twins(other_s: float, factor: float = 1.5) -> Forecast:
    """The same job on two kinds of nodes: 800 core seconds on one, ``other_s`` on the other."""
    return forecast(curve("cpu", 800.0, factor=factor), curve("other", other_s, factor=factor))


def test_places_that_cannot_be_told_apart_are_listed_and_the_sentence_says_so() -> None:
    decision = decided(None, PLACES, twins(880.0), settings=LISTS)
    assert (decision.chosen, decision.edit.queue) == ("cpu", "cpu,other")
    assert decision.reason.endswith(
        "; other cannot be told apart from it: the job starts where it can first."
    )


def test_places_are_not_listed_where_they_can_be_told_apart() -> None:
    for predicted in (twins(1200.0), twins(880.0, factor=1.02)):
        edit = decided(None, PLACES, predicted, settings=LISTS).edit
        assert edit.queue == "cpu"


def test_places_that_need_other_changes_or_a_scheduler_without_lists_are_not_listed() -> None:
    marked = cpu("other", constraint="big", features=("big",))
    for places, settings in (
        ((CPU, marked), LISTS),
        (PLACES, PolicySettings()),
        (PLACES, replace(LISTS, alike_within=1.0)),
    ):
        edit = decided(None, places, twins(880.0), settings=settings).edit
        assert edit.queue == "cpu"


@pytest.mark.parametrize(
    ("other_s", "wait_s", "listed"),
    [
        (700.0, 10_000.0, True),  # runs shorter there than at the best place
        (1200.0, 0.0, False),  # it would start there at once, and end later
        (1200.0, 10_000.0, True),  # it starts there only if the best place is late by so much
    ],
)
def test_lists_by_start_hold_places_that_help_only_where_the_best_is_late(
    other_s: float, wait_s: float, listed: bool
) -> None:
    waits = WaitTable((1,), (math.inf,), ((Interval(wait_s, wait_s, wait_s),),))
    none = WaitTable((1,), (math.inf,), ((Interval(0.0, 0.0, 0.0),),))
    full = state(idle_cores=0, pending_jobs=1)
    there = {"cpu": replace(full, waits=none), "other": replace(full, waits=waits)}
    by_start = replace(LISTS, objective="earliest", list_by=ListBy.START)
    decision = decided(None, PLACES, twins(other_s), now=there, settings=by_start)
    assert decision.edit.queue == ("cpu,other" if listed else "cpu")
    assert ("should it start late there, it may start at other." in decision.reason) == listed


def test_lists_by_start_follow_the_newest_reading_where_waits_count_for_nothing_else() -> None:
    by_start = replace(LISTS, list_by=ListBy.START, weights=Weights(wait=0.0))
    decider = Decider(PLACES, by_start)
    full = states(*PLACES) | {"other": state(idle_cores=0, pending_jobs=5)}
    for there, queue in (
        (states(*PLACES), "cpu"), (full, "cpu,other"), (states(*PLACES), "cpu"),
    ):  # fmt: skip
        decision = decider.decide(request(), there, twins(1200.0), NOW_S)
        assert decision.edit.queue == queue


@pytest.mark.parametrize("by", list(ListBy))
def test_guesses_are_never_listed_beside_a_prediction(by: ListBy) -> None:
    loose = replace(LISTS, list_by=by, strict=False)
    predicted = forecast(
        curve("cpu", 800.0, factor=1.5),
        curve("other", 800.0, factor=1.5, abstained="unlike any seen"),
    )
    decision = decided(None, PLACES, predicted, settings=loose)
    assert decision.edit.queue == "cpu"


def test_an_idle_equal_place_beats_a_full_one_by_default() -> None:
    full = {"cpu": state(idle_cores=0, pending_jobs=5)}
    decision = decided(None, PLACES, twins(880.0), now=states(*PLACES) | full, settings=LISTS)
    assert decision.edit.queue == "other"
