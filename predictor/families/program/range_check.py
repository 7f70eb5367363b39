"""Check whether a program resembles those that the bundle was trained on; name the counter if not.

The distance of a program is that to the nearest training kernel: the root mean square difference of
the standardised features. Each difference is clipped, so that one unusual counter cannot outweigh
twenty ordinary ones. The distance is divided by a threshold that most training kernels stay below
when each is compared with all others.

Features that no training kernel showed, such as single precision, do not count in the distance: the
roofline accounts for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.errors import DocumentError
from berth.predictor.core.arrays import Floats

RANGE = "range.json"
"""File name of the training kernels' features in a bundle."""
_CLIP = 8.0
"""Largest difference in one feature that counts, in standard deviations."""
NEAR = 0.3
"""Distance (multiple of the threshold) below which a program is like the training kernels: of
kernels left out, the calibrated roofline has half the error of own time times the ratio of the
cores below it (17 and 28 %), and more beyond (43 and 30 %)."""
FURTHEST = 1.5
"""Distance (multiple of the threshold) beyond which no error can be stated and Berth abstains."""
_LEAST_SCALE = 1e-3
"""Least standard deviation of a feature, so that constant features do not cause a division by
zero."""


@dataclass(frozen=True)
class RangeCheck:
    """The features of the training kernels, and the largest distance at which a program resembles
    them."""

    names: tuple[str, ...]
    """Names of the features, in the order of the columns."""
    rows: Floats
    """[rows, features] of the training kernels; NaN where a counter was not measured."""
    threshold: float = 1.0
    """Distance of a typical outlier among the training kernels, in standard deviations."""

    @classmethod
    def fit(
        cls, names: Sequence[str], rows: Floats, groups: Sequence[str], share: float = 0.98
    ) -> RangeCheck:
        """Return the range check fitted to the training kernels' features.

        ``groups`` names the kernel of each row. The threshold is the distance that a fraction
        ``share`` of the kernels stay below when each is compared with the rows of all other
        kernels.
        """
        check, kinds = cls(tuple(names), rows), np.array(groups)
        worst = [
            max(check._apart(row)[kinds != group].min() for row in rows[kinds == group])
            for group in sorted(set(groups))
            if (kinds != group).any()
        ]
        threshold = float(np.quantile(worst, share)) if worst else math.inf
        return replace(check, threshold=max(threshold, 1e-6))

    @classmethod
    def read(cls, path: Path, names: tuple[str, ...]) -> RangeCheck:
        """Return the range check of the features ``names``, read from a bundle's file.

        Raises DocumentError for a missing or invalid file.
        """
        try:
            data: dict[str, Any] = json.loads(path.read_text())
            rows = np.array(data["rows"], dtype=np.float64)  # null becomes NaN
            check = cls(tuple(data["names"]), rows, float(data["threshold"]))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise DocumentError(path, f"is not range data: {error!r}") from None
        if check.names != names or rows.shape[1:] != (len(names),):
            raise DocumentError(path, "is of other features than this version of Berth computes")
        return check

    def text(self) -> str:
        """Return the content of a bundle's file, for ``read``."""
        rows = [[None if math.isnan(v) else float(f"{v:.6g}") for v in row] for row in self.rows]
        data = {"names": self.names, "rows": rows, "threshold": self.threshold}
        return json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n"

    def distance(self, values: Floats) -> float:
        """Return a program's distance to the nearest training kernel, over the threshold (> 1: out
        of range)."""
        return float(self._apart(values).min()) / self.threshold

    def is_near(self, values: Floats) -> bool:
        """Return whether a program with these features is like the training kernels."""
        return self.distance(values) < NEAR

    def unlike(self, values: Floats, furthest: float = FURTHEST) -> str | None:
        """Return a sentence naming the feature that sets a program apart from the training kernel
        nearest to it; None within a distance of ``furthest``."""
        if self.distance(values) <= furthest:
            return None
        nearest = self._standard_rows[int(self._apart(values).argmin())]
        worst = int(np.nan_to_num(np.abs(self._standard(values) - nearest)).argmax())
        known = self.rows[:, worst][~np.isnan(self.rows[:, worst])]
        trained = f"{known.min():.3g} to {known.max():.3g}" if len(known) else "programs without it"
        return f"{self.names[worst]} is {values[worst]:.3g}: the bundle was trained on {trained}"

    @cached_property
    def _scaling(self) -> tuple[Floats, Floats]:
        """The mean of each feature and its standard deviation; infinity for a feature that was the
        same in all training kernels, which does not count."""
        known = ~np.isnan(self.rows)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, self.rows, 0.0).sum(axis=0) / count
        scale = (np.where(known, self.rows - centre, 0.0) ** 2).sum(axis=0) / count
        constant = np.fmax.reduce(self.rows) <= np.fmin.reduce(self.rows)
        return centre, np.where(constant, math.inf, np.maximum(scale**0.5, _LEAST_SCALE))

    @cached_property
    def _standard_rows(self) -> Floats:
        return self._standard(self.rows)

    def _standard(self, values: Floats) -> Floats:
        centre, scale = self._scaling
        return np.asarray(np.where(np.isinf(scale), 0.0, (values - centre) / scale))

    def _apart(self, values: Floats) -> Floats:
        """Return the root mean square difference from each training row, each difference clipped
        at ``_CLIP`` standard deviations.

        A feature that only one of both lacks counts as a difference of one standard deviation.
        """
        row = self._standard(values)
        both = np.isnan(self._standard_rows) & np.isnan(row)
        apart = np.where(both, 0.0, np.nan_to_num(self._standard_rows - row, nan=1.0))
        return np.asarray(np.mean(np.clip(apart, -_CLIP, _CLIP) ** 2, axis=1) ** 0.5)
