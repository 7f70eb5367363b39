"""Is a profile like those that the bundle was trained on? If not: which counter says so.

The distance is that to the nearest training kernel over standardised features (mean of squared
differences, each clipped so that one odd counter cannot hide in twenty good ones). The threshold
is what the training kernels themselves show when each is held against all others.

Beyond it the error to be expected grows (``widening``): of the suite on Quartz the fifth that is
furthest from all others is 1.8 times as far off as the rest. What no training kernel ever had, as
single precision, is left to the roofline, which knows what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from berth.predictor.core.arrays import Floats

_CLIP = 8.0
FURTHEST = 1.5
"""Multiple of the threshold beyond which nothing is like it: no error can be expected."""
GROWTH = 0.8
"""Growth of the interval's logarithm, for each threshold of distance beyond the first."""
UNLEARNT = 1.25
"""Factor on the interval for what training never saw at all, and the roofline alone accounts for.
"""
_LEAST_SCALE = 1e-3


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """The training set's place in feature space."""

    names: tuple[str, ...]
    centre: Floats
    scale: Floats
    rows: Floats
    """Standardised training rows, NaN where a counter was missing."""
    low: Floats
    high: Floats
    """Smallest and largest training value of each feature."""
    threshold: float

    @classmethod
    def fit(
        cls, names: Sequence[str], rows: Floats, groups: Sequence[str], share: float = 0.98
    ) -> RangeCheck:
        """Fit the range of training rows; ``share`` of the kernels are inside when held out."""
        with np.errstate(all="ignore"):
            centre = np.nan_to_num(_nan_mean(rows))
            scale = np.maximum(np.nan_to_num(_nan_mean((rows - centre) ** 2)) ** 0.5, _LEAST_SCALE)
        standard = (rows - centre) / scale
        check = cls(
            tuple(names),
            centre,
            scale,
            standard,
            np.nan_to_num(np.fmin.reduce(rows), nan=-math.inf),
            np.nan_to_num(np.fmax.reduce(rows), nan=math.inf),
            math.inf,
        )
        kinds = np.array(groups)
        worst = [
            max(_nearest(row, standard[kinds != group]) for row in standard[kinds == group])
            for group in sorted(set(groups))
            if (kinds != group).any()
        ]
        threshold = float(np.quantile(worst, share)) if worst else math.inf
        return cls(
            check.names, centre, scale, standard, check.low, check.high, max(threshold, 1e-6)
        )

    def raw_rows(self) -> Floats:
        """Return the training rows before they were standardised."""
        return self.rows * self.scale + self.centre

    def with_rows(self, rows: Floats) -> RangeCheck:
        """Return the same scales and threshold, with more rows of training to be near to."""
        return replace(
            self,
            rows=np.vstack([self.rows, (rows - self.centre) / self.scale]),
            low=np.fmin(self.low, np.nan_to_num(np.fmin.reduce(rows), nan=math.inf)),
            high=np.fmax(self.high, np.nan_to_num(np.fmax.reduce(rows), nan=-math.inf)),
        )

    def distance(self, values: Floats) -> float:
        """Return the distance to the nearest training row, as a multiple of the threshold: above 1
        is outside."""
        return _nearest((values - self.centre) / self.scale, self.rows) / self.threshold

    @property
    def _learnt(self) -> npt.NDArray[np.bool_]:
        """Return the features that differed between training kernels; nothing could be learnt of
        others."""
        return np.asarray(self.high > self.low)

    def widening(self, values: Floats) -> float:
        """Return how many times wider than usual the log interval must be for a program like this.

        Beyond ``FURTHEST`` it grows no more: nothing is known there.
        """
        others = ~self._learnt & ~np.isnan(values)
        strange = bool((np.abs(values - self.centre)[others] > _LEAST_SCALE).any())
        apart = min(self._learnt_distance(values), FURTHEST)
        return (UNLEARNT if strange else 1.0) * (1.0 + GROWTH * apart if apart > 1.0 else 1.0)

    def unlike(self, values: Floats) -> str | None:
        """Return None where an error can be expected, else a sentence that names the worst
        feature."""
        if self._learnt_distance(values) <= FURTHEST:
            return None
        return self.explain(np.where(self._learnt, values, self.centre))

    def _learnt_distance(self, values: Floats) -> float:
        return self.distance(np.where(self._learnt, values, self.centre))

    def beyond(self, columns: Sequence[int], values: Floats, most: float) -> str | None:
        """Return the first of ``columns`` that is unknown, or over ``most`` outside of training.

        None where there is none. One counter among many hardly moves ``distance``.
        """
        for column in columns:
            name, value = self.names[column], float(values[column])
            if math.isnan(value):
                return f"{name} is not known, and the time stands on it"
            low, high = float(self.low[column]), float(self.high[column])
            if max(low - value, value - high) > most:
                return (
                    f"{name} is {value:.3g}, far outside the {low:.3g} to {high:.3g} that the "
                    "bundle was trained on"
                )
        return None

    def explain(self, values: Floats) -> str | None:
        """Return None where ``values`` are in range, else a sentence that names the worst
        feature."""
        if self.distance(values) <= 1.0:
            return None
        below = np.nan_to_num((self.low - values) / self.scale, nan=-1.0)
        above = np.nan_to_num((values - self.high) / self.scale, nan=-1.0)
        beyond = np.maximum(below, above)
        worst = int(beyond.argmax())
        name, value = self.names[worst], float(values[worst])
        if beyond[worst] > 0:
            return (
                f"{name} is {value:.3g}, outside the {self.low[worst]:.3g} to "
                f"{self.high[worst]:.3g} that the bundle was trained on"
            )
        # Every counter is in range, but no training kernel has them together.
        standard = (values - self.centre) / self.scale
        nearest = self.rows[int(np.argmin(_distances(standard, self.rows)))]
        worst = int(np.nan_to_num(np.abs(standard - nearest)).argmax())
        return (
            f"no training kernel has such a combination of counters; "
            f"{self.names[worst]} = {float(values[worst]):.3g} is the furthest from the nearest one"
        )


def _nan_mean(rows: Floats) -> Floats:
    known = ~np.isnan(rows)
    return np.asarray(np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def _distances(row: Floats, rows: Floats) -> Floats:
    # A counter missing on one side only is a difference of one standard deviation.
    both = np.isnan(rows) & np.isnan(row)
    apart = np.where(both, 0.0, np.nan_to_num(rows - row, nan=1.0))
    return np.asarray(np.mean(np.clip(apart, -_CLIP, _CLIP) ** 2, axis=1) ** 0.5)


def _nearest(row: Floats, rows: Floats) -> float:
    return float(_distances(row, rows).min())
