"""Check whether a program resembles those that the bundle was trained on; name the counter if not.

The distance of a program is that to the nearest training kernel: the root mean square difference of
the standardised features. Each difference is clipped, so that one unusual counter cannot outweigh
twenty ordinary ones. The distance is divided by a threshold that most training kernels stay below
when each is compared with all others.

Beyond the threshold, larger errors are expected and intervals grow (``widening``): of the reference
suite on Quartz, the fifth of the kernels with the largest distances has 1.8 times the error of the
other kernels. Features that no training kernel showed, such as single precision, do not count in
the distance: the roofline accounts for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berth.predictor.core.arrays import Floats

_CLIP = 8.0
"""Largest difference in one feature that counts, in standard deviations."""
NEAR = 0.3
"""Distance (multiple of the threshold) below which a program is like the training kernels: of
kernels left out, the calibrated roofline has half the error of own time times the ratio of the
cores below it (17 and 28 %), and more beyond (43 and 30 %)."""
FURTHEST = 1.5
"""Distance (multiple of the threshold) beyond which no error can be stated and Berth abstains."""
GROWTH = 0.8
"""Relative growth of the log interval per unit of distance, applied where the distance exceeds
1."""
UNLEARNT = 1.25
"""Factor on the log interval for features without training data, which only the roofline covers."""
_LEAST_SCALE = 1e-3
"""Least standard deviation of a feature, so that constant features do not cause a division by
zero."""


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """The features of the training kernels, and the largest distance at which a program resembles
    them."""

    names: tuple[str, ...]
    """Names of the features, in the order of all arrays."""
    centre: Floats
    scale: Floats
    rows: Floats
    """Standardised training rows (rows x features); NaN where a counter was not measured."""
    low: Floats
    high: Floats
    """Smallest and largest training value of each feature."""
    threshold: float
    """Distance of a typical outlier among the training kernels, in standard deviations."""

    @classmethod
    def fit(
        cls, names: Sequence[str], rows: Floats, groups: Sequence[str], share: float = 0.98
    ) -> RangeCheck:
        """Return the range check fitted to the training kernels' features (rows x features).

        ``groups`` names the kernel of each row. The threshold is the distance that a fraction
        ``share`` of the kernels stay below when each is compared with the rows of all other
        kernels.
        """
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

    def distance(self, values: Floats) -> float:
        """Return a program's distance to the nearest training kernel, over the threshold (> 1: out
        of range)."""
        return _nearest((values - self.centre) / self.scale, self.rows) / self.threshold

    @property
    def _learnt(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.high > self.low)

    def widening(self, values: Floats) -> float:
        """Return the factor by which a program with these features needs a wider log interval (1:
        usual).

        Beyond a distance of ``FURTHEST`` the factor grows no more, because no error can be stated
        there.
        """
        others = ~self._learnt & ~np.isnan(values)
        strange = bool((np.abs(values - self.centre)[others] > _LEAST_SCALE).any())
        apart = min(self._learnt_distance(values), FURTHEST)
        return (UNLEARNT if strange else 1.0) * (1.0 + GROWTH * apart if apart > 1.0 else 1.0)

    def is_near(self, values: Floats) -> bool:
        """Return whether a program with these features is like the training kernels."""
        return self._learnt_distance(values) < NEAR

    def unlike(self, values: Floats) -> str | None:
        """Return a sentence naming the most unusual feature of a program unlike all training
        kernels, or None.

        None within a distance of ``FURTHEST``, where an error can be stated.
        """
        if self._learnt_distance(values) <= FURTHEST:
            return None
        return self.explain(np.where(self._learnt, values, self.centre))

    def _learnt_distance(self, values: Floats) -> float:
        return self.distance(np.where(self._learnt, values, self.centre))

    def explain(self, values: Floats) -> str | None:
        """Return a sentence that names the most unusual feature of a program; None: it is within
        range."""
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
        # Each feature is in range, but no training kernel has a similar combination.
        standard = (values - self.centre) / self.scale
        nearest = self.rows[int(np.argmin(_distances(standard, self.rows)))]
        worst = int(np.nan_to_num(np.abs(standard - nearest)).argmax())
        return (
            f"no training kernel has such a combination of counters; "
            f"{self.names[worst]} = {float(values[worst]):.3g} is the furthest from the nearest one"
        )


def _nan_mean(rows: Floats) -> Floats:
    """Return the mean of each column over its known values; 0 for a column without any."""
    known = ~np.isnan(rows)
    return np.asarray(np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def _distances(row: Floats, rows: Floats) -> Floats:
    # A feature missing in only one of the rows counts as a difference of one standard deviation.
    """Return the root mean square difference between a feature row and each training row.

    Each difference is clipped at ``_CLIP`` standard deviations.
    """
    both = np.isnan(rows) & np.isnan(row)
    apart = np.where(both, 0.0, np.nan_to_num(rows - row, nan=1.0))
    return np.asarray(np.mean(np.clip(apart, -_CLIP, _CLIP) ** 2, axis=1) ** 0.5)


def _nearest(row: Floats, rows: Floats) -> float:
    """Return the distance from a program's standardised features to the nearest training row.

    The unit is standard deviations (root mean square over the features).
    """
    return float(_distances(row, rows).min())
