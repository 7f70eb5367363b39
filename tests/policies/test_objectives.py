"""Objectives by hand-worked cases, and what must hold of each objective."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_builders import (
    BOTH,
    CPU,
    GIB,
    GPU,
    NOW_S,
    PREDICTED,
    curve,
    decided,
    forecast,
    gpu,
    interval,
    request,
    states,
)  # fmt: skip

from berth.pilot.errors import UsageError
from berth.policies.codes import Code
from berth.policies.decide import Decider
from berth.policies.objectives import OBJECTIVES, JobEstimate, Objective, ScoreTerm
from berth.policies.objectives.energy import PowerSource, energy_of
from berth.policies.settings import PolicySettings, Weights
from berth.policies.values import CandidateState, Decision, Demands, OwnQueue, Request, Resources
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval


def scores(decision: Decision) -> dict[str, float | None]:
    return {row.candidate: row.score for row in decision.ranked}


def terms(
    objective: str,
    now: Mapping[str, CandidateState] | None = None,
    asked: Request | None = None,
    **settings: Any,
) -> dict[str, list[ScoreTerm]]:
    decider = Decider(BOTH, PolicySettings(objective=objective, **settings))
    asked, now = asked or request(), now or states(*BOTH)
    decision = decider.decide(asked, now, PREDICTED, NOW_S)
    return {
        ranked.candidate: list(decider.terms(asked, ranked, now, PREDICTED))
        for ranked in decision.ranked
    }


def numbers(parts: list[ScoreTerm]) -> dict[str, float]:
    return {term.name: term.value for term in parts}


class Greenest(Objective):
    """Energy: the forecasts of these tests hold none."""

    name = "greenest"
    superlative = "needs least energy"
    missing = (Code.NO_SCORE, "its energy is not known")

    def score(self, estimate: JobEstimate) -> float | None:
        energy = estimate.prediction.energy_j
        return None if energy is None else energy.mid

    def terms(self, estimate: JobEstimate) -> tuple[ScoreTerm, ...]:
        return ()


@pytest.fixture
def greenest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES._loaded, "greenest", Greenest)


@pytest.mark.parametrize("name", OBJECTIVES.own())
def test_each_is_known_by_its_name_and_its_terms_are_numbers(name: str) -> None:
    objective = OBJECTIVES.load(name)(Weights())
    assert objective.name == name
    assert objective.superlative.startswith("is ")
    for parts in terms(name).values():
        assert parts
        assert all(text and value >= 0 for text, value, _ in parts)


def test_the_terms_make_up_the_score() -> None:
    assert terms("fastest")["gpu"] == [("predicted time", 20.0, "s")]
    waiting = terms("fastest", states(*BOTH, pending_jobs=3), weights=Weights(wait=0.5))["gpu"]
    assert waiting == [
        ("predicted time", 20.0, "s"),
        ("expected wait, weighted", 0.5 * 4 * 20.0, "s"),
    ]
    ((text, value, unit),) = terms("cheapest")["gpu"]
    assert (text, unit) == ("cost", "currency")
    assert value == pytest.approx(3.0 * 20 / 3600)
    assert [name for name, _, _ in terms("balanced", weights=Weights(time=2.0))["cpu"]] == [
        "predicted time", "cost", "exponent of the time", "exponent of the cost",
    ]  # fmt: skip


def test_the_expected_wait_is_in_the_score_of_the_objective() -> None:
    now = states(*BOTH, pending_jobs=3)
    decision = decided(now=now, objective="fastest", weights=Weights(wait=0.5))
    assert decision.ranked[0].score == pytest.approx(20.0 + 0.5 * 4 * 20.0)


def test_a_place_without_a_score_is_ruled_out_with_the_objectives_own_reason(greenest) -> None:
    decision = decided(objective="greenest")
    assert (decision.chosen, decision.code, decision.policy) == (None, "no-score", "greenest")
    assert decision.reason == "Left as it is: its energy is not known."


def test_an_unknown_objective_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no objective 'fastes'") as refused:
        decided(objective="fastes")
    assert (refused.value.hint or "").startswith("did you mean 'fastest'?")


def test_the_earliest_counts_the_wait_where_the_site_ignores_it() -> None:
    now = states(*BOTH)
    now["gpu"] = replace(now["gpu"], idle_gpus=0, pending_jobs=9)
    weights = Weights(wait=0.0)
    assert decided(objective="fastest", now=now, weights=weights).chosen == "gpu"
    decision = decided(objective="earliest", now=now, weights=weights)
    assert decision.chosen == "cpu"
    assert scores(decision) == pytest.approx({"cpu": 100.0, "gpu": 20.0 + 10 * 20.0})


def test_a_table_of_waits_replaces_the_guess() -> None:
    table = WaitTable(
        (1, 4), (60.0, 3600.0), ((interval(7.0), interval(9.0)), (interval(70.0), interval(90.0)))
    )
    now = states(*BOTH)
    now["gpu"] = replace(now["gpu"], idle_gpus=0, pending_jobs=500, waits=table)
    assert scores(decided(objective="earliest", now=now))["gpu"] == pytest.approx(27.0)
    assert numbers(terms("earliest", now)["gpu"]) == {"predicted time": 20.0, "expected wait": 7.0}
    assert table.at(1, 61.0).mid == 9.0
    assert table.at(2, 60.0).mid == 70.0
    assert table.at(10_000, 1e9).mid == 90.0  # beyond the last class
    free = {**now, "gpu": replace(now["gpu"], idle_gpus=8, pending_jobs=0)}
    assert scores(decided(objective="earliest", now=free))["gpu"] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("units", "seconds", "rows"),
    [((), (1.0,), 0), ((2, 1), (1.0,), 2), ((1, 1), (1.0,), 2), ((1,), (), 1), ((1, 2), (1.0,), 1)],
)
def test_a_table_of_another_shape_is_refused(
    units: tuple[int, ...], seconds: tuple[float, ...], rows: int
) -> None:
    with pytest.raises(ValueError, match=r"ascend|rows"):
        WaitTable(units, seconds, tuple((interval(1.0),) for _ in range(rows)))
    with pytest.raises(ValueError, match="columns"):
        WaitTable((1,), (1.0,), ((interval(1.0), interval(2.0)),))


def test_energy_is_power_of_what_is_held_times_time() -> None:
    decision = decided(objective="least-energy")
    # By the data sheet: 8 cores of 10 W for 100 s; one GPU of 600 W for 20 s.
    assert scores(decision) == pytest.approx({"cpu": 8000.0, "gpu": 12000.0})
    assert decision.chosen == "cpu"
    assert "is predicted to need least energy" in decision.reason
    assert numbers(terms("least-energy")["gpu"]) == pytest.approx(
        {"predicted time": 20.0, PowerSource.SHEET.value: 600.0, "energy": 12000 / 3.6e6}
    )


def test_a_predicted_power_is_taken_before_the_data_sheet_and_a_measured_one_before_both() -> None:
    # The grid point of 8 cores: 400 J in 100 s, half a watt a core. 6 cores hold 3 W for 133 s.
    known = forecast(curve("cpu", 800.0, energy_j=interval(400.0)), curve("gpu", 20.0, gpus=True))
    assert scores(decided(objective="least-energy", predicted=known))["cpu"] == pytest.approx(400.0)
    measured = forecast(
        curve("cpu", 800.0, energy_j=interval(400.0), unit_power_w=2.0),
        curve("gpu", 20.0, gpus=True, unit_power_w=300.0),
    )
    assert scores(decided(objective="least-energy", predicted=measured)) == pytest.approx(
        {"cpu": 8 * 2.0 * 100.0, "gpu": 300.0 * 20.0}
    )


def test_cores_beside_gpus_count_where_their_power_is_given() -> None:
    host = gpu(power_per_core_w=5.0)
    decision = decided(objective="least-energy", candidates=(host,))
    assert scores(decision)["gpu"] == pytest.approx((600.0 + 8 * 5.0) * 20.0)


DARK, FREE = gpu(power_per_gpu_w=None), gpu(price_per_gpu_hour=None)


@pytest.mark.parametrize(
    ("objective", "candidates", "weights", "codes"),
    [
        ("least-energy", (CPU, DARK), Weights(), {"cpu": None, "gpu": "no-energy"}),
        ("balanced", (CPU, DARK), Weights(energy=1.0), {"cpu": None, "gpu": "no-energy"}),
        ("balanced", (CPU, FREE), Weights(energy=1.0), {"cpu": None, "gpu": "no-price"}),
        ("balanced", (CPU, FREE), Weights(cost=0.0), {"cpu": None, "gpu": None}),
    ],
)  # fmt: skip
def test_a_candidate_that_lacks_a_number_is_ruled_out_with_its_own_reason(
    objective: str, candidates: Any, weights: Weights, codes: dict[str, str | None]
) -> None:
    decision = decided(None, candidates, objective=objective, weights=weights)
    assert {ranked.candidate: ranked.code for ranked in decision.ranked} == codes


def test_balanced_takes_energy_with_its_exponent() -> None:
    weights = Weights(time=1.0, cost=0.5, energy=2.0)
    cost = 8 * 0.05 * 100 / 3600
    assert scores(decided(objective="balanced", weights=weights))["cpu"] == pytest.approx(
        100.0 * cost**0.5 * 8000.0**2
    )


def test_a_deadline_is_met_as_cheaply_as_can_be() -> None:
    # cpu: 0.011 for at most 150 s; gpu: 0.017 for at most 30 s.
    def within(seconds: float | None) -> Decision:
        return decided(objective="deadline", asked=request(needs=Demands(finish_within_s=seconds)))

    assert within(None).chosen == "cpu"
    assert within(150.0).chosen == "cpu"
    assert within(149.0).chosen == "gpu"
    assert within(1.0).chosen == "gpu"  # none is in time: the one that is least late
    asked = request(needs=Demands(finish_within_s=200.0))
    parts = numbers(terms("deadline", asked=asked)["cpu"])
    assert (parts["deadline"], parts["latest start"]) == (200.0, pytest.approx(50.0))


def test_the_site_can_set_deadlines_by_time_limits_and_waiting_counts() -> None:
    asked = request(time_limit_s=200.0)
    assert decided(objective="deadline", asked=asked, deadline_limits=1.0).chosen == "cpu"
    busy = states(*BOTH)
    busy["cpu"] = replace(busy["cpu"], idle_cores=0, pending_jobs=2)
    assert decided(objective="deadline", asked=asked, now=busy, deadline_limits=1.0).chosen == "gpu"
    assert decided(objective="deadline", asked=asked, now=busy, deadline_limits=3.0).chosen == "cpu"
    own = request(time_limit_s=200.0, needs=Demands(finish_within_s=900.0))
    assert decided(objective="deadline", asked=own, now=busy, deadline_limits=1.0).chosen == "cpu"


def test_places_in_time_without_a_price_come_after_those_with_one() -> None:
    unpriced = replace(GPU, price_per_gpu_hour=None)
    asked = request(needs=Demands(finish_within_s=200.0))
    assert decided(objective="deadline", asked=asked, candidates=(CPU, unpriced)).chosen == "cpu"
    tight = request(needs=Demands(finish_within_s=100.0))
    assert decided(objective="deadline", asked=tight, candidates=(CPU, unpriced)).chosen == "gpu"


def test_what_has_no_price_or_is_late_is_said_as_such() -> None:
    unpriced = replace(GPU, price_per_gpu_hour=None)
    asked = request(needs=Demands(finish_within_s=200.0))
    reason = decided(objective="deadline", asked=asked, candidates=(CPU, unpriced)).reason
    assert "gpu has no price" in reason
    tight = request(needs=Demands(finish_within_s=100.0))
    reason = decided(objective="deadline", asked=tight, candidates=(CPU, unpriced)).reason
    assert "cpu would miss the deadline" in reason
    reason = decided(objective="deadline").reason
    assert "times cheaper than gpu" in reason


@pytest.mark.parametrize("within_s", [None, 1.0, 100.0, 200.0])
@pytest.mark.parametrize("name", OBJECTIVES.own())
def test_no_sentence_shows_a_factor_that_only_orders_places(
    name: str, within_s: float | None
) -> None:
    asked = request(needs=Demands(finish_within_s=within_s))
    unpriced = replace(GPU, price_per_gpu_hour=None)
    sent = replace(asked, queue="gpu", own=OwnQueue(places=("gpu",)))
    for places in (BOTH, (CPU, unpriced), (replace(CPU, price_per_core_hour=None), GPU)):
        for job in (asked, sent):
            reason = decided(objective=name, asked=job, candidates=places).reason
            shown = [float(number) for number in re.findall(r"([0-9.e+]+) times", reason)]
            assert all(number < 1e4 for number in shown), reason


positive = st.floats(1e-3, 1e6)


@st.composite
def estimates(draw: st.DrawFn) -> tuple[JobEstimate, JobEstimate]:
    """Two estimates of one kind of candidate, the first one no worse in any respect."""
    runtime, cost, power = draw(positive), draw(positive), draw(positive)
    wait, pending = draw(st.floats(0, 1e5)), draw(st.integers(0, 50))
    worse = [draw(st.floats(1.0, 10.0)) for _ in range(4)]

    def estimate(name: str, factors: list[float], pending: int) -> JobEstimate:
        mid = runtime * factors[0]
        state = CandidateState(True, 0, 0, pending, NOW_S)
        point = curve(name, 1.0).points[0]
        return JobEstimate(
            replace(CPU, name=name, power_per_core_w=power * factors[2]),
            Resources(1, 8),
            Interval(mid / 2, mid, mid * 2),
            mid + wait * factors[3],
            cost * factors[1],
            None,
            replace(point, energy_j=None),
            request(needs=Demands(finish_within_s=5_000.0)),
            state,
            NOW_S,
        )

    return estimate("a", [1.0] * 4, pending), estimate(
        "b", worse, pending + draw(st.integers(0, 5))
    )


@pytest.mark.parametrize("name", OBJECTIVES.own())
@given(both=estimates())
def test_what_is_no_worse_in_any_term_never_scores_worse(
    name: str, both: tuple[JobEstimate, JobEstimate]
) -> None:
    settings = PolicySettings(objective=name, weights=Weights(energy=0.5))
    objective = OBJECTIVES.load(name).of(settings, BOTH)
    better, worse = (objective.score(estimate) for estimate in both)
    assert better is not None
    assert worse is not None
    assert 0 < better <= worse * (1 + 1e-12)
    assert math.isfinite(worse)


def test_energy_names_its_source() -> None:
    estimate = JobEstimate(GPU, Resources(1, 1, 8, 2), interval(10.0), 10.0, None, None,
                  curve("gpu", 10.0, gpus=True, needs_bytes=GIB).points[0])  # fmt: skip
    energy = energy_of(estimate)
    assert (energy.joules, energy.power_w, energy.source) == (12000.0, 1200.0, PowerSource.SHEET)
    assert energy_of(estimate._replace(candidate=replace(GPU, power_per_gpu_w=None))) is None
