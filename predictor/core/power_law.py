"""Power laws of the problem size, fitted to the values of a few runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

NOISE = 0.02
"""Relative difference between the times or peaks of identical runs. Exponents that fit within this
tolerance are possible.
"""
_POSSIBLE_EXPONENTS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_MAX_EXPONENT = 4.0


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """The power law ``constant + factor * size**exponent`` and its largest error at the measured
    sizes."""

    constant: float
    factor: float
    exponent: float
    misfit: float
    """Largest absolute log of the ratio of measured to fitted values."""

    def __call__(self, size: float) -> float:
        """Return the fitted value at ``size``."""
        return float(self.constant + self.factor * size**self.exponent)


def possible_values(
    growth: PowerLaw, measured: Sequence[float], size: float, tolerance: float
) -> list[float]:
    """Return the values at ``size`` of every ``constant + slope * size**exponent`` that fits the
    measured sizes within NOISE and ``tolerance`` (shares of the largest value).

    The curves are fitted to the values of ``growth`` instead of the raw measurements, so that a law
    read from the store gives the same result as a fresh fit. The last value may be off by NOISE,
    which matters where the program has hardly grown.
    """
    first, last = measured[0], measured[-1]
    values = [growth(at) for at in measured]
    values_there = []
    for exponent in _POSSIBLE_EXPONENTS:
        reach = last**exponent - first**exponent
        for noise in (-NOISE, NOISE):
            slope = max(0.0, (values[-1] * (1 + noise) - values[0]) / reach)
            constant = values[-1] - slope * last**exponent
            misfit = max(
                abs(constant + slope * at**exponent - value)
                for at, value in zip(measured, values, strict=True)
            )
            if misfit <= (1.01 * NOISE + tolerance) * values[-1]:
                values_there.append(max(0.0, constant + slope * size**exponent))
    return values_there


def fit_power_law(points: Sequence[tuple[float, float]]) -> PowerLaw:
    """Return the law fitted to values by size; ``points`` ascend by size.

    It is linear unless the value grew faster than the size between the two largest sizes. Then the
    exponent is that of these two or a steeper one, whichever fits all points best.
    """
    (size, value), (largest, there) = points[-2:]
    exponent = math.log(there / value) / math.log(largest / size)
    exponents = [1.0]
    if exponent > 1:
        steeper = [each for each in _POSSIBLE_EXPONENTS if each > exponent]
        exponents = [min(exponent, _MAX_EXPONENT), *steeper]
    return min((_fitted(points, each) for each in exponents), key=lambda law: round(law.misfit, 6))


def _fitted(points: Sequence[tuple[float, float]], exponent: float) -> PowerLaw:
    """Return the law of this exponent with the least squares of relative errors; neither part is
    negative."""
    largest = points[-1][0]
    rows = [(1.0 / value, (size / largest) ** exponent / value) for size, value in points]
    ones, mixed, grown = (
        sum(a * a for a, _ in rows), sum(a * b for a, b in rows), sum(b * b for _, b in rows)
    )  # fmt: skip
    wanted, wanted_grown = map(sum, zip(*rows, strict=True))
    # Not as a difference of two sums, which nearly cancel.
    determinant = sum((a * d - b * c) ** 2 for (a, b), (c, d) in combinations(rows, 2))
    constant = max(0.0, (wanted * grown - wanted_grown * mixed) / determinant)
    factor = max(0.0, (wanted_grown - constant * mixed) / grown)
    if not factor:
        constant = wanted / ones
    law = PowerLaw(constant, factor / largest**exponent, exponent, 0.0)
    return replace(law, misfit=max(abs(math.log(value / law(size))) for size, value in points))
