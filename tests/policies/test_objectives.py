"""Objectives: found by name, each with a score and the terms that it is made of."""

from __future__ import annotations

import pytest
from policy_builders import NOW_S, cpu, curve, forecast, gpu, request, states

from berth.pilot.errors import UsageError
from berth.policies import OBJECTIVES, Code, Decider, PolicySettings, Weights
from berth.policies.objectives import Estimate, Objective, Term

CANDIDATES = (cpu(), gpu())
PREDICTED = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True))


class Greenest(Objective):
    """Energy: the forecasts of these tests hold none."""

    name = "greenest"
    superlative = "needs least energy"
    missing = (Code.NO_SCORE, "its energy is not known")

    def score(self, estimate: Estimate) -> float | None:
        energy = estimate.prediction.energy_j
        return None if energy is None else energy.mid

    def terms(self, estimate: Estimate) -> tuple[Term, ...]:
        return ()


@pytest.fixture
def greenest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES._loaded, "greenest", Greenest)


def decider(objective: str, **weights: float) -> Decider:
    return Decider(CANDIDATES, PolicySettings(objective=objective, weights=Weights(**weights)))


def terms(made: Decider, **changes: object) -> dict[str, list[tuple[str, float, str]]]:
    asked, now = request(), states(*CANDIDATES, **changes)
    decision = made.decide(asked, now, PREDICTED, NOW_S)
    return {
        row.candidate: [tuple(t) for t in made.terms(asked, row, now, PREDICTED)]
        for row in decision.ranked
    }


@pytest.mark.parametrize("name", [n for n in OBJECTIVES.own() if not OBJECTIVES.load(n).baseline])
def test_each_is_known_by_its_name_and_its_terms_are_numbers(name: str) -> None:
    objective = OBJECTIVES.load(name)(Weights())
    assert objective.name == name
    assert objective.superlative.startswith("is ")
    for rows in terms(decider(name)).values():
        assert rows
        assert all(text and value >= 0 for text, value, _ in rows)


def test_the_terms_make_up_the_score() -> None:
    assert terms(decider("fastest"))["gpu"] == [("predicted time", 20.0, "s")]
    waiting = terms(decider("fastest", wait=0.5), pending_jobs=3)["gpu"]
    assert waiting == [
        ("predicted time", 20.0, "s"),
        ("expected wait, weighted", 0.5 * 4 * 20.0, "s"),
    ]
    ((text, value, unit),) = terms(decider("cheapest"))["gpu"]
    assert (text, unit) == ("cost", "currency")
    assert value == pytest.approx(3.0 * 20 / 3600)
    assert [t[0] for t in terms(decider("balanced", time=2.0))["cpu"]] == [
        "predicted time", "cost", "exponent of the time", "exponent of the cost",
    ]  # fmt: skip


def test_the_expected_wait_is_in_the_score_of_the_objective() -> None:
    now = states(*CANDIDATES, pending_jobs=3)
    decision = decider("fastest", wait=0.5).decide(request(), now, PREDICTED, NOW_S)
    assert decision.ranked[0].score == pytest.approx(20.0 + 0.5 * 4 * 20.0)


def test_a_place_without_a_score_is_ruled_out_with_the_objectives_own_reason(greenest) -> None:
    decision = decider("greenest").decide(request(), states(*CANDIDATES), PREDICTED, NOW_S)
    assert (decision.chosen, decision.code, decision.policy) == (None, "no-score", "greenest")
    assert decision.reason == "Left as it is: its energy is not known."


def test_an_unknown_objective_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no objective 'fastes'") as refused:
        decider("fastes")
    assert (refused.value.hint or "").startswith("did you mean 'fastest'?")
