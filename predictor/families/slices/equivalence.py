"""Predict slow-downs by batch equivalence, without training.

A batch ``b`` on a slice takes as long as a batch ``b / e`` on the whole GPU, where ``e`` is the
slice's effective share, because a slice needs as many waves of thread blocks for it. That time is
interpolated between the workload's measured times, linearly in log-log. Beyond the largest measured
batch, the slope is the mean of the slope between the two largest batches and of 1 (proportional).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.workload import WholeRun

LEAST_BATCHES = 2
"""Least number of measured batch sizes with the same number of processes."""
_STEP = 0.2
"""Difference of log batch sizes over which a slope is taken."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A workload's times on the whole GPU over batch sizes, with one number of processes."""

    log_batch: Floats
    log_s: Floats
    """Log of the seconds per batch, made non-decreasing: less time for more work is noise."""
    measured: Mapping[float, float]
    """Seconds per batch as measured, by batch size."""

    @classmethod
    def of(cls, points: Sequence[WholeRun], processes: int) -> Curve | None:
        """Return the curve through the points with this number of processes; None: too few."""
        mine = sorted((p for p in points if p.processes == processes), key=lambda p: p.batch)
        if len(mine) < LEAST_BATCHES:
            return None
        return cls(
            np.log([p.batch for p in mine]),
            np.maximum.accumulate(np.log([p.seconds for p in mine])),
            {p.batch: p.seconds for p in mine},
        )

    @property
    def last_slope(self) -> float:
        """Return the slope between the two largest batches, at most 1."""
        return min(
            float((self.log_s[-1] - self.log_s[-2]) / (self.log_batch[-1] - self.log_batch[-2])),
            1.0,
        )

    def at(self, log_batch: Floats) -> Floats:
        """Return the log of the seconds per batch at these batch sizes (logs)."""
        slope = (1.0 + self.last_slope) / 2
        inside = np.interp(log_batch, self.log_batch, self.log_s)
        return np.asarray(inside + slope * self.beyond(log_batch), dtype=np.float64)

    def beyond(self, log_batch: Floats) -> Floats:
        """Return how far the batch sizes are beyond the largest measured one, in log."""
        return np.asarray(np.maximum(log_batch - self.log_batch[-1], 0.0), dtype=np.float64)

    def whole_s(self, batch: float) -> float:
        """Return the seconds per batch on the whole GPU, measured or interpolated."""
        return self.measured.get(batch) or float(np.exp(self.at(np.log([batch])))[0])

    def log_slowdowns(self, batch: float, effective: Floats) -> Floats:
        """Return the log slow-down of a batch size on slices with these effective shares."""
        reached = self.at(math.log(batch) - np.log(effective))
        return np.asarray(reached - math.log(self.whole_s(batch)), dtype=np.float64)

    def unsure(self, batch: float, effective: Floats) -> Floats:
        """Return by how much, in log, the slow-downs may be off because the slope beyond the
        largest measured batch is not known."""
        beyond = self.beyond(math.log(batch) - np.log(effective))
        return np.asarray(beyond * (1.0 - self.last_slope) / 2, dtype=np.float64)

    def launch_shares(self, batch: float, effective: Floats) -> Floats:
        """Return the share of a slice's time that a larger slice would not shorten, 0 to 1."""
        wanted = math.log(batch) - np.log(effective)
        slope = (self.at(wanted) - self.at(wanted - _STEP)) / _STEP
        return np.asarray(1.0 - np.clip(slope, 0.0, 1.0), dtype=np.float64)
