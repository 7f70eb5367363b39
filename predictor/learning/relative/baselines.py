"""What any family of relative performance has to beat: no counters, or one similar workload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import Neighbours


@dataclass(frozen=True, slots=True)
class MeanSpeedup:
    """The mean log speedup of every platform, whatever the workload: always one pick."""

    name: str = "static best platform"
    what: str = "mean log speedup of each platform, whatever the workload"

    def fit(self, rows: Rows, seed: int) -> MeanSpeedupFitted:
        """Mean over the rows that have a time there; 0 where none has."""
        known = np.isfinite(rows.log_speedup)
        total = np.where(known, rows.log_speedup, 0.0).sum(axis=0)
        return MeanSpeedupFitted(total / np.maximum(known.sum(axis=0), 1))


@dataclass(frozen=True, slots=True)
class MeanSpeedupFitted:
    """See ``MeanSpeedup``."""

    log_speedup: Floats
    """[platforms]"""

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back."""
        guess = rows.log_reference[:, None] - self.log_speedup
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


@dataclass(frozen=True, slots=True)
class NearestWorkload:
    """The speedups of the one training workload with the most similar counters."""

    name: str = "nearest workload"
    what: str = "speedups of the training row nearest in standardised log counters"

    def fit(self, rows: Rows, seed: int) -> NearestFitted:
        """Keep the training rows."""
        return NearestFitted(Neighbours.fit(rows))


@dataclass(frozen=True, slots=True)
class NearestFitted:
    """See ``NearestWorkload``."""

    neighbours: Neighbours

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; of each platform the nearest row with a time there, without one the
        reference's time."""
        apart = self.neighbours.squared(self.neighbours.place(rows))
        known = np.isfinite(self.neighbours.log_speedup)
        guess = np.repeat(rows.log_reference[:, None], known.shape[1], axis=1)
        for column in np.flatnonzero(known.any(axis=0)).tolist():
            labelled = np.flatnonzero(known[:, column])
            nearest = labelled[apart[:, labelled].argmin(axis=1)]
            guess[:, column] -= self.neighbours.log_speedup[nearest, column]
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


BASELINES = (MeanSpeedup(), NearestWorkload())
