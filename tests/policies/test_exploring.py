"""policy.explore: where most is learnt, within a budget, a share and a worst case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_builders import BOTH, NOW_S, curve, forecast, request, states

from berth.policies import PolicySettings
from berth.policies.codes import Code
from berth.policies.decide import Decider
from berth.policies.exploring import Allowance
from berth.policies.settings import Explore, Weights
from berth.policies.values import CandidateState, Decision, Request, TaskArray
from berth.predictor.core.forecast import Forecast, Unit
from berth.predictor.core.prediction import Basis

OPEN = Allowance(core_hours=100.0, jobs=50, explored=0)
EXPLORE = Explore(core_hours=100.0, worst=4.0)


def predicted(gpu_s: float = 110.0, factor: float = 3.0, **changes: Any) -> Forecast:
    """100 s on the CPUs within 2 %, and on one GPU ``gpu_s`` within ``factor``."""
    return forecast(
        curve("cpu", 800.0, factor=1.02),
        curve("gpu", gpu_s, gpus=True, factor=factor, **changes),
    )


def decided(
    forecast: Forecast | None = None,
    *,
    allowance: Allowance | None = OPEN,
    explore: Explore = EXPLORE,
    asked: Request | None = None,
    at: dict[str, CandidateState] | None = None,
    **settings: Any,
) -> Decision:
    policy = PolicySettings(explore=explore, weights=Weights(wait=0.0), **settings)
    decider = Decider(BOTH, policy)
    return decider.decide(
        asked or request(), at or states(*BOTH), forecast or predicted(), NOW_S, allowance
    )


def test_a_job_goes_where_most_is_learnt_and_says_so() -> None:
    decision = decided()
    assert (decision.chosen, decision.code) == ("gpu", Code.EXPLORED)
    assert decision.explored.instead_of == "cpu"
    assert decision.explored.value > decision.explored.loss > 0
    # One GPU of four, of a node of 64 cores, for at most 330 s.
    assert decision.explored.core_hours == pytest.approx(16 * 330 / 3600)
    assert [row.candidate for row in decision.ranked] == ["gpu", "cpu"]
    assert (decision.edit.queue, decision.edit.gres) == ("gpu", "gpu:h100:1")
    for words in ("gpu (1 GPU", "to learn", "100 s in cpu", "4 times", "berth-explore:off"):
        assert words in decision.reason


def test_without_an_allowance_the_best_is_chosen_as_ever() -> None:
    decision = decided(allowance=None)
    assert (decision.chosen, decision.code, decision.explored) == ("cpu", "placed", None)
    plain = Decider(BOTH, PolicySettings(explore=EXPLORE, weights=Weights(wait=0.0)))
    assert plain.decide(request(), states(*BOTH), predicted(), NOW_S) == decision


def test_the_same_request_state_and_budget_give_the_same_decision() -> None:
    assert decided() == decided()
    spent = OPEN._replace(core_hours=99.0)
    assert decided(allowance=spent).inputs_digest != decided().inputs_digest


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("the budget does not pay for it", {"allowance": OPEN._replace(core_hours=1.4)}),
        ("the share is used up", {"allowance": OPEN._replace(explored=2)}),
        ("a program of few jobs", {"allowance": OPEN._replace(jobs=15)}),
        ("the worst case is worse than stated", {"explore": replace(EXPLORE, worst=3.2)}),
        ("nothing more to learn", {"forecast": predicted(factor=1.02)}),
        ("measured there", {"forecast": predicted(basis=Basis.MEASURED)}),
        ("a prior", {"forecast": predicted(basis=Basis.PRIOR), "allow_prior": True}),
        ("it costs more than it tells", {"forecast": predicted(gpu_s=125.0, factor=1.3)}),
        ("the limit may be broken", {"asked": request(time_limit_s=200.0)}),
        ("the limit would be raised", {"asked": request(time_limit_s=200.0),
                                       "may_raise_time_limit": True}),
        ("the user may not", {"asked": request(allowed_queues=frozenset(("cpu",)))}),
        ("it is down", {"at": states(BOTH[0]) | states(BOTH[1], up=False)}),
        ("an array that spends too much", {"asked": request(array=TaskArray(100))}),
        ("nobody knows how long the job is", {"forecast": replace(predicted(), unit=Unit.STEP)}),
    ],
)  # fmt: skip
def test_it_is_not_sent_where(why: str, changes: dict[str, Any]) -> None:
    decision = decided(**changes)
    assert (decision.chosen, decision.code) == ("cpu", "placed"), why
    assert decision.explored is None


def test_a_long_wait_is_no_uncertainty_that_a_run_ends() -> None:
    busy = states(*BOTH, idle_cores=0, idle_gpus=0, pending_jobs=200)
    waits = PolicySettings(explore=EXPLORE, weights=Weights(wait=1.0))
    decision = Decider(BOTH, waits).decide(request(), busy, predicted(), NOW_S, OPEN)
    assert decision.code == "placed"


def test_exclusive_nodes_are_paid_for_whole() -> None:
    asked = request()
    asked = replace(asked, needs=replace(asked.needs, exclusive=True))
    decision = decided(asked=asked)
    assert decision.explored.core_hours == pytest.approx(64 * 330 / 3600)
