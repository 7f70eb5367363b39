"""Candidates listed beside the best: those that cannot be told apart, or help if it is late."""

from __future__ import annotations

from policy_builders import CPU, cpu, curve, decided, forecast, state, states

from berth.policies import PolicySettings
from berth.predictor.core.forecast import Forecast

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


def test_an_idle_equal_place_beats_a_full_one_by_default() -> None:
    full = {"cpu": state(idle_cores=0, pending_jobs=5)}
    decision = decided(None, PLACES, twins(880.0), now=states(*PLACES) | full, settings=LISTS)
    assert decision.edit.queue == "other"
