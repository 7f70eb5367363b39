"""Baselines: each as the papers have it, through the production Decider."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from policy_builders import NOW_S, cpu, curve, forecast, gpu, request, states

from berth.pilot.errors import UsageError
from berth.policies import Decider, PolicySettings

PLACES = (cpu("a"), cpu("b"), gpu("c"))
PREDICTED = forecast(curve("a", 800.0), curve("b", 400.0), curve("c", 20.0, gpus=True))


def decider(objective: str, **settings: object) -> Decider:
    return Decider(PLACES, PolicySettings(objective=objective, **settings))


def chosen(made: Decider, count: int, **asked: object) -> list[str | None]:
    now = states(*PLACES)
    return [made.decide(request(**asked), now, PREDICTED, NOW_S).chosen for _ in range(count)]


def test_round_robin_goes_round_and_passes_over_what_does_not_fit() -> None:
    assert chosen(decider("round-robin"), 6) == ["a", "b", "c", "a", "b", "c"]
    assert chosen(decider("round-robin"), 4, gpus=1, gres="gpu:1") == ["c"] * 4


def test_random_takes_all_alike_and_the_same_again() -> None:
    found = chosen(decider("random"), 600)
    assert found == chosen(decider("random"), 600)
    assert set(found) == {"a", "b", "c"}
    assert all(150 < n < 250 for n in Counter(found).values())


def test_the_users_choice_is_the_queue_that_was_named() -> None:
    # A replay gives the queue of the trace and lets Berth choose: the baseline keeps it.
    assert chosen(decider("user-choice"), 1, queue="a", wants_placement=True) == ["a"]
    decision = decider("user-choice").decide(request(), states(*PLACES), PREDICTED, NOW_S)
    assert (decision.chosen, decision.code) == (None, "not-chosen")


def test_static_best_is_one_order_for_every_job() -> None:
    assert chosen(decider("static-best", order=("b", "c")), 2) == ["b", "b"]
    assert chosen(decider("static-best", order=("b", "c")), 1, gpus=1, gres="gpu:1") == ["c"]
    with pytest.raises(UsageError, match=r"needs policy\.order"):
        decider("static-best")
    with pytest.raises(UsageError, match="there is no candidate 'd'"):
        decider("static-best", order=("b", "d"))


def test_heterogeneity_blind_sees_the_queues_and_not_the_hardware() -> None:
    now = states(*PLACES)
    made = decider("heterogeneity-blind")
    asked = request(time_limit_s=7200.0)
    alike = [r.score for r in made.decide(asked, now, PREDICTED, NOW_S).ranked]
    assert alike == pytest.approx([7200.0] * 3, rel=1e-5)
    drawn = {made.decide(asked, now, PREDICTED, NOW_S + i).chosen for i in range(40)}
    assert drawn == {"a", "b", "c"}
    now = {**now, "c": replace(now["c"], idle_gpus=0, pending_jobs=1)}
    decision = made.decide(asked, now, PREDICTED, NOW_S)
    assert {r.candidate: r.score for r in decision.ranked} == pytest.approx(
        {"a": 7200.0, "b": 7200.0, "c": 3 * 7200.0}, rel=1e-5
    )
    assert decision.chosen != "c"
