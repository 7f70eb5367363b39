"""A replay small enough for tests: two queues of equal length, one fast and dear, one slow.

A job goes to the fast queue with a probability that follows from the policy; the wait of a queue
grows with its load. What is best is known: a weight of waiting near 2, and a factor of 1.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from berth.pilot.errors import UsageError
from berth.policies.settings import PolicySettings
from berth.policies.tuning.figures import ReplayFigures, TracePart

DAY_S = 86_400.0


@dataclass
class StandIn:
    """``jobs`` of five users over ``days``; deterministic."""

    days: int = 28
    jobs: int = 2_000
    broken: bool = False
    asked: list[tuple[PolicySettings, TracePart]] = field(default_factory=list)

    @property
    def span_s(self) -> float:
        return self.days * DAY_S

    notes: tuple[str, ...] = ("7 lines could not be read and are left out:",)

    def in_pools(self) -> StandIn:
        return self

    def replay(self, policy: PolicySettings, part: TracePart) -> ReplayFigures:
        self.asked.append((policy, part))
        if self.broken:
            raise UsageError("the policy raised")
        random = np.random.default_rng(5)
        submit = np.sort(random.uniform(0, self.span_s, self.jobs))
        runtime = random.lognormal(6, 1, self.jobs)
        user = random.integers(0, 5, self.jobs)
        noise = random.uniform(0.9, 1.1, self.jobs)
        off = (policy.weights.wait - 2.0) ** 2 + 4 * math.log(policy.alike_within / 1.5) ** 2
        fast = policy.objective != "balanced"
        kept = np.flatnonzero((submit >= part.begin_s) & (submit < part.end_s))
        wait = (600 * noise * (1 + off))[kept]
        time = (runtime if fast else 1.5 * runtime)[kept]
        return ReplayFigures(
            submit_s=submit[kept],
            wait_s=wait,
            runtime_s=time,
            user=user[kept],
            cost=time * (2.0 if fast else 1.0),
            energy_j=np.full(len(kept), np.nan),
            core_s=time * 4,
            queue=np.full(len(kept), 0 if fast else 1),
            users=tuple(f"user{i}" for i in range(5)),
            queues=("fast", "slow"),
            capacity={"fast": 64.0, "slow": 64.0},
            killed=int(policy.time_margin < 1.0),
            jobs=len(kept),
            ended=len(kept),
        )
