"""From a workload's own load model to its slow-down on a slice, with a learnt correction.

It extrapolates from loads on the whole GPU to less of a GPU; what it gets wrong in the same way
for all models is learnt (gradient boosting on what it says itself, no names of models).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.sweep import LoadModel

ANCHOR = 0.5
"""How far the load model is moved onto the time measured at the very point: between the two,
whose errors are about as large."""
MOST_MISFIT = 0.12
"""Median log misfit above which the load model does not describe the workload (training: 0.04)."""
CAPACITY_SPREAD = 0.25
"""How far off a slice's capacity may be for one workload: what a probe is weighed against."""
PROBE_NOISE = 0.03
"""Log error of a probe's own time."""
_GRID = np.linspace(-1.2, 1.2, 241)

Residual = Callable[[Floats], Floats]
"""Feature rows to log corrections."""


@dataclass(frozen=True, slots=True)
class Loads:
    """What is in flight: arrays of one length."""

    batch: Floats
    processes: Floats
    log_whole_s: Floats
    """Log seconds a batch measured on the whole GPU; NaN where it was not."""

    @classmethod
    def one(cls, batch: float, processes: float, whole_s: float | None) -> Loads:
        """A single load."""
        log_s = math.nan if whole_s is None else math.log(whole_s)
        return cls(np.array([batch]), np.array([float(processes)]), np.array([log_s]))

    def times(self, count: int) -> Loads:
        """This single load ``count`` times, for as many slices."""
        return Loads(
            np.repeat(self.batch, count),
            np.repeat(self.processes, count),
            np.repeat(self.log_whole_s, count),
        )


@dataclass(frozen=True, slots=True)
class SeenProbe:
    """A slow-down that was measured on a slice."""

    load: Loads
    effective: float
    log_slowdown: float


@dataclass(frozen=True, slots=True)
class SweepModel:
    """The correction; the load model itself comes with the workload."""

    residual: Residual | None

    def log_slowdown(
        self, load_model: LoadModel, loads: Loads, effective: Floats, capacity: Floats | float = 0.0
    ) -> Floats:
        """Log slow-downs; ``capacity`` moves the logs of the effective shares (from a probe)."""
        able = np.minimum(effective * np.exp(capacity), 1.0)
        base = load_model_log_slowdown(load_model, loads, able)
        if self.residual is None:
            return base
        correction = self.residual(residual_features(load_model, loads, effective))
        return np.asarray(base + correction, dtype=np.float64)

    def capacity_from(self, load_model: LoadModel, probes: Sequence[SeenProbe]) -> float:
        """The shift of capacity that probes speak for."""
        cost = (_GRID / CAPACITY_SPREAD) ** 2
        for probe in probes:
            said = self.log_slowdown(
                load_model,
                probe.load.times(len(_GRID)),
                np.full(len(_GRID), probe.effective),
                _GRID,
            )
            cost = cost + ((said - probe.log_slowdown) / PROBE_NOISE) ** 2
        return float(_GRID[int(np.argmin(cost))])


def load_model_log_slowdown(load_model: LoadModel, loads: Loads, effective: Floats) -> Floats:
    """What the load model alone says."""
    whole = load_model.log_time(loads.batch, loads.processes, np.ones_like(loads.batch))
    off = np.nan_to_num(loads.log_whole_s - whole, nan=0.0)
    slice_ = load_model.log_time(loads.batch, loads.processes, effective)
    return np.asarray(slice_ - whole - ANCHOR * off, dtype=np.float64)


def residual_features(load_model: LoadModel, loads: Loads, effective: Floats) -> Floats:
    """Rows in the order of ``manifest.RESIDUAL_FEATURES``."""
    batch, processes = loads.batch, loads.processes
    host, work = load_model.logs(batch, processes, effective)
    ones = np.ones_like(batch)
    host_whole, work_whole = load_model.logs(batch, processes, ones)
    bare = load_model.log_time(batch, processes, effective) - load_model.log_time(
        batch, processes, ones
    )
    columns = (
        -np.log(effective), bare, work - host, work_whole - host_whole,
        np.log(processes), np.log(batch),
    )  # fmt: skip
    return np.stack(columns, axis=1)
