"""Fit the latent methods: Gaussian processes that predict one latent number per load.

The latent number determines the slow-down on every slice (``physics.log_slowdown``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.latent import (
    LatentGroup,
    Latents,
    Member,
    features,
    kernel,
    latents,
)
from berth.predictor.families.slices.physics import ShareModel, log_slowdown
from berth.predictor.families.slices.predictor import TYPICAL
from lab.slices.slice_cases import SHARES, Case

SHARPNESS = (1.5, 2.0, 3.0)
LENGTHS = (1.5, 2.0, 3.0)
"""Times the root of the number of features, in standard deviations."""
NOISE = 0.05
"""Variance of the noise of a latent number."""
OUTLIER = 0.5
"""Residual from which a row's influence no longer grows (Huber)."""
STEADY = 0.01
"""Unsteadiness of a row's times at which the row's variance is doubled."""
_ROUNDS = 8
_GRID = np.linspace(-5.0, 4.0, 181)


@dataclass(frozen=True, slots=True)
class FamilySpec:
    """Which features a family needs, and its small sets of features."""

    name: str
    needs: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]


def _subsets(always: tuple[str, ...], others: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (*always, *some) for k in range(len(others) + 1) for some in combinations(others, k)
    )


FAMILIES = (
    FamilySpec(
        "utilisation",
        ("log_memory", "sm", "log_step"),
        _subsets(("log_memory",), ("sm", "log_step")),
    ),
    FamilySpec("use", ("log_memory", "sm"), _subsets(("log_memory",), ("sm",))),
    FamilySpec("gpu-use", ("sm",), (("sm",),)),
    FamilySpec(TYPICAL, (), ((),)),
)
"""Every set that has the memory's utilisation, without which nothing tells a busy GPU from a
waiting one. ``use`` and ``gpu-use`` are for jobs of which monitoring recorded utilisation and no
step time; ``typical`` is the mean of the models, for workloads of which one time is known."""


def known(case: Case) -> dict[str, float]:
    """Return the features of a case's load, by name."""
    return features(case.point)


def true_latent(case: Case, shares: ShareModel, sharpness: float) -> float:
    """Return the latent number with the least absolute log error over the measured slices."""
    cost = np.zeros_like(_GRID)
    for g, y in case.measured.items():
        cost += np.abs(log_slowdown(_GRID, shares.effective(SHARES[g]), sharpness) - y)
    return float(_GRID[int(np.argmin(cost))])


def fit_family(spec: FamilySpec, cases: Sequence[Case], shares: ShareModel) -> LatentGroup:
    """Fit all members of a family on these cases."""
    rows = [known(case) for case in cases]
    trust = np.array([1 / (STEADY + case.point.unsteadiness) for case in cases])
    members = []
    for sharpness in SHARPNESS:
        wanted = np.array([true_latent(case, shares, sharpness) for case in cases])
        for names in spec.sets:
            raw = np.array([[row[name] for name in names] for row in rows])
            for length in LENGTHS:
                spread = length * math.sqrt(max(len(names), 1))
                members.append(_member(names, spread, sharpness, raw, (wanted, trust)))
    every = np.array([[row[name] for name in spec.needs] for row in rows])
    return LatentGroup(
        name=spec.name,
        needs=spec.needs,
        members=tuple(members),
        low=_rounded(every.min(axis=0)),
        high=_rounded(every.max(axis=0)),
    )


def predicted(family: LatentGroup, cases: Sequence[Case]) -> Latents:
    """Return the predicted latent numbers of the cases, by member."""
    return latents(family, [known(case) for case in cases])


def slowdowns(found: Latents, shares: ShareModel) -> dict[int, Floats]:
    """Return the log slow-down of each case, by number of compute slices."""
    count = found.values.shape[1]
    return {
        g: found.log_slowdown(np.full(count, shares.effective(share)))
        for g, share in SHARES.items()
    }


def _member(
    names: tuple[str, ...],
    length: float,
    sharpness: float,
    raw: Floats,
    taught: tuple[Floats, Floats],
) -> Member:
    """Fit one member; ``taught``: the latent number and the weight of each row."""
    wanted, trust = taught
    centre, scale = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-6)
    rows = np.round((raw - centre) / scale, 5)
    covariance = kernel(rows, rows, length)
    mean = float(np.median(wanted))
    weight: Floats = np.asarray(trust / trust.mean(), dtype=np.float64)
    alpha: Floats = np.zeros(len(wanted))
    for _ in range(_ROUNDS):
        noise = np.diag(NOISE / np.maximum(weight, 1e-3))
        solved = np.linalg.solve(covariance + noise, wanted - mean)
        alpha = np.asarray(solved, dtype=np.float64)
        off = np.abs(wanted - mean - covariance @ alpha)
        pull = np.minimum(1.0, OUTLIER / np.maximum(off, 1e-9))
        weight = np.asarray(trust / trust.mean() * pull, dtype=np.float64)
    return Member(
        features=names,
        centre=_rounded(centre),
        scale=_rounded(scale),
        length=round(length, 6),
        sharpness=sharpness,
        mean=round(mean, 6),
        rows=tuple(tuple(float(v) for v in row) for row in rows),
        weights=tuple(float(f"{v:.8g}") for v in alpha),
    )


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{v:.8g}") for v in values)
