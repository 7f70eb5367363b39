"""The list of a job whose program is predicted: all places that fit, the fastest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from policy_builders import CPU, cpu, curve, decided, forecast, ranked_as, state, states

from berth.policies.settings import PolicySettings
from berth.policies.values import CandidateState
from berth.policies.waits import WaitTable
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval

LISTS = PolicySettings(list_queues=True)
PLACES = (CPU, cpu("other"))


def twins(other_s: float, factor: float = 1.5, usual: float | None = None) -> Forecast:
    """The same job on two kinds of nodes: 800 core seconds on one, ``other_s`` on the other;
    ``usual``: how many times longer programs usually take on the other."""
    return forecast(
        curve("cpu", 800.0, factor=factor, basis=Basis.MEASURED, usual_ratio=usual and 1.0),
        curve("other", other_s, factor=factor, basis=Basis.MEASURED, usual_ratio=usual),
    )


def waiting(seconds: float) -> Mapping[str, CandidateState]:
    """The first place is full, with a simulated wait; the other has room."""
    wait = WaitTable((1,), (1.0,), ((Interval(seconds, seconds, seconds),),))
    return states(*PLACES) | {"cpu": state(idle_cores=0, pending_jobs=1, waits=wait)}


def listed(predicted: Forecast, **changes: Any) -> str | None:
    edit = decided(None, PLACES, predicted, **{"settings": LISTS, **changes}).edit
    return None if edit is None else edit.queue


def test_all_places_are_listed_the_fastest_first_and_the_sentence_says_so() -> None:
    decision = decided(None, PLACES, twins(880.0), settings=LISTS)
    assert (decision.chosen, decision.edit.queue) == ("cpu", "cpu,other")
    assert decision.reason.endswith("; it may also start in other, whichever has room first.")
    assert listed(twins(700.0)) == "cpu,other"  # perhaps faster: the site's order stays
    assert listed(twins(700.0, factor=1.01)) == "cpu,other"  # but not by much
    assert listed(twins(600.0, factor=1.05)) == "other,cpu"


@pytest.mark.parametrize("predicted", [twins(8000.0, usual=2.0), twins(1200.0, 1.02, usual=1.0)])
def test_a_surely_slower_place_is_left_out_only_where_waiting_for_the_best_is_shorter(
    predicted: Forecast,
) -> None:
    assert listed(predicted) == "cpu,other"
    assert listed(predicted, now=waiting(1.0)) == "cpu"
    assert listed(predicted, now=waiting(900.0)) == "cpu,other"


@pytest.mark.parametrize("usual", [8.0, None])
def test_a_place_where_a_program_loses_no_more_than_others_is_never_left_out(
    usual: float | None,
) -> None:
    assert listed(twins(8000.0, usual=usual), now=waiting(1.0)) == "cpu,other"


def test_other_objectives_list_only_what_is_as_good() -> None:
    cheapest = LISTS.model_copy(update={"objective": "cheapest"})
    assert listed(twins(880.0), settings=cheapest) == "cpu,other"
    assert listed(twins(1200.0), settings=cheapest) == "cpu"


def test_scarce_nodes_are_for_jobs_that_fit_nowhere_else() -> None:
    places = (CPU, cpu("other", scarce=True))
    decision = decided(None, places, twins(700.0), settings=LISTS)
    assert decision.edit.queue == "cpu"
    assert ranked_as(decision, "other").code == "scarce"
    assert decided(None, places[1:], twins(700.0), settings=LISTS).edit.queue == "other"


def test_places_that_need_other_changes_or_a_scheduler_without_lists_are_not_listed() -> None:
    marked = cpu("other", constraint="big", features=("big",))
    for places, settings in (
        ((CPU, marked), LISTS),
        (PLACES, PolicySettings()),
        (PLACES, LISTS.model_copy(update={"alike_within": 1.0})),
    ):
        edit = decided(None, places, twins(880.0), settings=settings).edit
        assert edit.queue == "cpu"


def test_guesses_are_never_listed_beside_a_prediction() -> None:
    loose = LISTS.model_copy(update={"strict": False})
    predicted = forecast(
        curve("cpu", 800.0, factor=1.5),
        curve("other", 800.0, factor=1.5, abstained="unlike any seen"),
    )
    decision = decided(None, PLACES, predicted, settings=loose)
    assert decision.edit.queue == "cpu"


def test_the_order_does_not_depend_on_the_present_load() -> None:
    full = states(*PLACES) | {"cpu": state(idle_cores=0, pending_jobs=5)}
    assert listed(twins(880.0), now=full) == "cpu,other"
