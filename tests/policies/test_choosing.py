"""A replay's Chooser takes the places that the Decider takes, job by job."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from berth.policies import Candidate, CandidateState, Decider, PolicySettings, Request, Resources
from berth.policies.choosing import Chooser
from berth.policies.replay.predicted import Columns
from berth.policies.settings import ListBy, Weights
from berth.policies.values import QueueBounds
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

PLACES = [
    Candidate(
        f"p{n}", f"h{n % 5}", f"q{n % 4}", cores_per_node=16, nodes=4, max_time_s=9_000.0,
        price_per_core_hour=1.0 + n % 3, power_per_core_w=5.0 + n,
        allowed_users=frozenset({"ada"}) if n == 3 else None,
    )
    for n in range(8)
]  # fmt: skip
OBJECTIVES = (
    "fastest", "earliest", "balanced", "cheapest", "least-energy", "throughput-fair", "deadline",
    "round-robin", "heterogeneity-blind",
)  # fmt: skip
TABLE = WaitTable(
    (4, 64), (600.0, math.inf), ((Interval(0, 30, 60),) * 2, (Interval(1, 400, 900),) * 2)
)


def states(rng: random.Random) -> dict[str, CandidateState]:
    found = {}
    for place in PLACES:
        if rng.random() < 0.05:
            continue  # not known
        found[place.name] = CandidateState(
            rng.random() > 0.05, rng.choice((0, 8, 64)), 0, rng.choice((0, 0, 1, 5)),
            1_000.0 - rng.choice((5.0, 5.0, 500.0)),
            usable_nodes=rng.choice((None, None, 0, 1, 4)),
            bounds=QueueBounds(max_nodes=1) if rng.random() < 0.1 else QueueBounds(),
            waits=rng.choice((None, TABLE)),
        )  # fmt: skip
    return found


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_chooser_takes_what_the_decider_takes(objective: str, listed: bool) -> None:
    rng = random.Random(f"{objective} {listed}")  # noqa: S311 - a test
    times = {
        f"h{n}": np.array([math.nan if rng.random() < 0.1 else rng.choice((50.0, 60.0, 4e3 + n))
                           for _ in range(12)])
        for n in range(5)
    }  # fmt: skip
    predicted = Columns(times, PLACES, spread=1.3)
    settings = PolicySettings(
        objective, Weights(wait=rng.choice((0.0, 0.5, 1.0)), energy=0.3), list_queues=listed,
        alike_within=2.0, may_raise_time_limit=True, deadline_limits=2.0,
        list_by=rng.choice(list(ListBy)),
    )  # fmt: skip
    # Objectives that take turns must be asked as often.
    decider, chooser = Decider(PLACES, settings), Chooser(Decider(PLACES, settings))
    queue = {place.name: place.queue for place in PLACES}
    placed = 0
    for _ in range(25):
        now = states(rng)
        for _ in range(4):
            request = Request(
                rng.choice(("ada", "bob")), None, Resources(1, rng.choice((1, 4, 32, 64)), 1),
                queue=rng.choice((None, "q1")), wants_placement=True,
                time_limit_s=rng.choice((None, 100.0, 8_000.0)),
                allowed_queues=rng.choice((None, None, frozenset({"q0", "q2"}))),
                pinned=rng.choice(((), (), (), ("nodelist",))),
            )  # fmt: skip
            forecast = predicted.forecast(rng.randrange(12))
            at_s = 1_000.0 + rng.random()
            made = decider.decide(request, now, forecast, at_s)
            choice = chooser.choose(request, now, forecast, at_s)
            if choice is None:
                assert made.chosen is None
                continue
            placed += 1
            assert made.edit is not None
            assert choice.best.candidate == made.chosen
            assert choice.best.runtime_s == made.ranked[0].runtime_s
            queues = [] if made.edit.queue is None else made.edit.queue.split(",")
            assert replace(made.edit, queue=queues[0] if queues else None) == replace(
                choice.edit, queue=choice.edit.queue and choice.edit.queue.split(",")[0]
            )
            fits = [row for row in made.ranked if row.score is not None]
            first = [next(r for r in fits if queue[r.candidate] == q) for q in queues[1:]]
            assert [row.candidate for row in choice.listed] == [row.candidate for row in first]
    assert placed > 20
