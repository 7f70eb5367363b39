"""Probe advice: on which platforms a short pilot run would cut the expected regret most.

The expected value of sample information for picking the best of correlated normals: of one probe
by ``core.value_of_run``, as where jobs are sent to learn; of two by seeded antithetic draws. Regret
is time on the platform picked over the least time, in log:
``E[min_j mean_j after the probe] - E[min_j time_j]``. Errors that are less than Gaussian make
that too much; ``Joint.regret_share`` is what held-out applications had of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.value_of_run import RUN_NOISE, expected_least
from berth.predictor.families.relative.joint import Joint

DRAWS = 512
MOST_IN_PAIRS = 16
"""Pairs are tried among the so many best single probes."""
WORTH_A_PROBE = 1.03
"""A regret expected below this is not worth another run."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One or more platforms to run on, and what is left to regret after that."""

    platforms: tuple[str, ...]
    regret: float
    """Expected (geometric mean) time of the pick over the best, afterwards; 1: none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to probe."""

    pick: str
    """What would be picked now."""
    regret: float
    """Expected now."""
    one: Probe | None
    """The best single probe; None: nothing is left to probe."""
    two: Probe | None

    @property
    def worthwhile(self) -> bool:
        """Is there a probe, and is there something to gain by it?"""
        return self.one is not None and self.regret > WORTH_A_PROBE


def expected_regret(joint: Joint, seed: int = 0) -> float:
    """Expected time on the platform with the least mean log time over the least time."""
    best = (joint.mean + joint.draws(DRAWS, seed)).min(axis=1).mean()
    return math.exp(joint.regret_share * max(0.0, float(joint.mean.min() - best)))


def advise(
    joint: Joint,
    among: Iterable[str] | None = None,
    *,
    noise: float = RUN_NOISE,
    seed: int = 0,
) -> Advice:
    """The one and the two platforms (of ``among``; default: all) that are best to probe.

    Platforms whose times are known are never named. The same input gives the same advice.
    """
    wanted = joint.platforms if among is None else tuple(among)
    open_columns = [c for c in joint.columns(wanted) if joint.covariance[c, c] > 0]
    deviation = joint.draws(DRAWS, seed)
    seen = deviation + noise * np.random.default_rng(seed + 1).standard_normal(deviation.shape)
    least = float((joint.mean + deviation).min(axis=1).mean())

    def after(columns: Sequence[int]) -> float:
        return joint.regret_share * max(0.0, _expected_pick(joint, columns, seen, noise) - least)

    exact = {c: _expected_pick_of_one(joint, c, noise) for c in open_columns}
    drawn = [_expected_pick(joint, [c], seen, noise) for c in open_columns]
    # What the draws are off where the answer is known is taken off what they say of the least.
    off = sum(exact.values()) / len(exact) - sum(drawn) / len(drawn) if exact else 0.0
    singles = sorted((joint.regret_share * max(0.0, exact[c] - least - off), c) for c in exact)
    one = two = None
    if singles:
        left, column = singles[0]
        one = Probe((joint.platforms[column],), math.exp(left))
    if len(singles) > 1:
        tried = sorted(c for _, c in singles[:MOST_IN_PAIRS])
        left, pair = min((after(p), p) for p in itertools.combinations(tried, 2))
        order = {c: rank for rank, (_, c) in enumerate(singles)}
        names = tuple(joint.platforms[c] for c in sorted(pair, key=order.__getitem__))
        two = Probe(names, math.exp(left))
    pick = joint.platforms[int(joint.mean.argmin())]
    return Advice(pick, expected_regret(joint, seed), one, two)


def _expected_pick_of_one(joint: Joint, column: int, noise: float) -> float:
    """As ``_expected_pick``, exactly."""
    surprise = math.sqrt(float(joint.covariance[column, column]) + noise**2)
    moved = joint.gain([column], noise)[:, 0] * surprise
    return expected_least(joint.mean.tolist(), moved.tolist())


def _expected_pick(joint: Joint, columns: Sequence[int], seen: Floats, noise: float) -> float:
    means = joint.mean + seen[:, list(columns)] @ joint.gain(columns, noise).T
    return float(means.min(axis=1).mean())
