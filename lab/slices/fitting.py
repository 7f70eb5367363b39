"""Fit the effective shares of slices, and the Gaussian processes of the latent methods.

A process predicts one latent number per load, which determines the slow-down on every slice
(``physics.log_slowdown``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.latent import SHARPNESS, LatentProcess, features, kernel
from berth.predictor.families.slices.physics import MeasuredShare, ShareModel, log_slowdown
from berth.predictor.families.slices.predictor import TYPICAL, load_model_of
from berth.predictor.families.slices.projected import WITH_MEMORY, WITHOUT_MEMORY
from berth.predictor.families.slices.sweep import Load, log_slowdowns
from lab.slices.slice_cases import SHARES, Case, inference_cases

NOISE = 0.05
"""Variance of the noise of a latent number."""
OUTLIER = 0.5
"""Residual from which a row's influence no longer grows (Huber)."""
STEADY = 0.01
"""Unsteadiness of a row's times at which the row's variance is doubled."""
_ROUNDS = 8
_GRID = np.linspace(-5.0, 4.0, 181)
_SHARE_FACTORS = np.exp(np.linspace(-0.25, 0.25, 51))


METHODS: Mapping[str, tuple[str, ...]] = {
    WITH_MEMORY: ("log_memory", "sm"),
    WITHOUT_MEMORY: ("sm",),
    TYPICAL: (),
}
"""Features of each method. Without the memory's utilisation nothing tells a busy GPU from a waiting
one; ``typical`` is the mean of the models, for workloads of which one time is known."""


def model_weights(models: Sequence[str]) -> Floats:
    """Weights that sum to one, the same for each model however many rows it has."""
    names, place, count = np.unique(np.array(models), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / (count[place] * len(names)))


def fit_shares(models: Collection[str]) -> ShareModel:
    """Fit the effective shares that minimise the load model's mean absolute log error on
    ParvaGPU's rows of these models.

    Each model has the same weight. Slices that were not measured get ``scale c^(1-w) m^w``, fitted
    to the measured slices, where c and m are the shares of compute and of memory.
    """
    rows = [row for row in _errors_by_share() if row[0] in models]
    weights = model_weights([model for model, *_ in rows])
    found: dict[int, float] = {}
    for g, share in SHARES.items():
        mine = [i for i, row in enumerate(rows) if row[1] == g]
        losses = weights[mine] @ np.array([rows[i][2] for i in mine])
        found[g] = share.compute * float(_SHARE_FACTORS[np.argmin(losses)])
    log_c, log_m = (
        np.log([getattr(SHARES[g], kind) for g in found]) for kind in ("compute", "memory")
    )
    log_e, more = np.log(list(found.values())), log_m - log_c - (log_m - log_c).mean()
    weight = float(np.clip(more @ (log_e - log_c) / (more**2).sum(), 0.0, 1.0))
    scale = float(np.exp((log_e - (1 - weight) * log_c - weight * log_m).mean()))
    return ShareModel(
        measured=tuple(
            MeasuredShare(compute=SHARES[g].compute, memory=SHARES[g].memory, effective=round(e, 6))
            for g, e in found.items()
        ),
        scale=round(scale, 6),
        memory_weight=round(weight, 6),
    )


@cache
def _errors_by_share() -> list[tuple[str, int, Floats]]:
    """Return (model, compute slices, the load model's absolute log error by ``_SHARE_FACTORS``) of
    each of ParvaGPU's rows."""
    rows = []
    for case in inference_cases():
        point, load_model = case.point, load_model_of(case.workload.points)
        load = Load(point.batch, point.processes, math.log(point.seconds))
        for g, measured in case.measured.items():
            tried = np.minimum(SHARES[g].compute * _SHARE_FACTORS, 1.0)
            off = np.abs(log_slowdowns(load_model, load, tried) - measured)
            rows.append((case.model, g, off))
    return rows


def known(case: Case) -> dict[str, float]:
    """Return the features of a case's load, by name."""
    return features(case.point.sm_utilization, case.point.memory_utilization)


def true_latent(case: Case, shares: ShareModel) -> float:
    """Return the latent number with the least absolute log error over the measured slices."""
    cost = np.zeros_like(_GRID)
    for g, y in case.measured.items():
        cost += np.abs(log_slowdown(_GRID, shares.effective(SHARES[g]), SHARPNESS) - y)
    return float(_GRID[int(np.argmin(cost))])


def fit_process(name: str, cases: Sequence[Case], shares: ShareModel) -> LatentProcess:
    """Fit a method's Gaussian process on these cases, with Huber's loss."""
    names = METHODS[name]
    wanted = np.array([true_latent(case, shares) for case in cases])
    trust = np.array([1 / (STEADY + case.point.unsteadiness) for case in cases])
    raw = np.array([[known(case)[feature] for feature in names] for case in cases])
    centre, scale = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-6)
    rows = np.round((raw - centre) / scale, 5)
    covariance = kernel(rows, rows)
    mean = float(np.median(wanted))
    weight: Floats = trust / trust.mean()
    alpha: Floats = np.zeros(len(wanted))
    for _ in range(_ROUNDS):
        noise = np.diag(NOISE / np.maximum(weight, 1e-3))
        alpha = np.asarray(np.linalg.solve(covariance + noise, wanted - mean), dtype=np.float64)
        off = np.abs(wanted - mean - covariance @ alpha)
        weight = trust / trust.mean() * np.minimum(1.0, OUTLIER / np.maximum(off, 1e-9))
    return LatentProcess(
        name=name,
        features=names,
        centre=_rounded(centre),
        scale=_rounded(scale),
        low=_rounded(raw.min(axis=0)),
        high=_rounded(raw.max(axis=0)),
        mean=round(mean, 6),
        rows=tuple(tuple(float(v) for v in row) for row in rows),
        weights=_rounded(alpha),
    )


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{v:.8g}") for v in values)
