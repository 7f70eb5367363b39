"""Power laws of the problem size, fitted to the values of a few runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def possible_values(growth: PowerLaw, measured: Sequence[float], size: float) -> list[float]:
    """Return the values at ``size`` of every ``constant + slope * size**exponent`` that fits the
    measured sizes within NOISE.

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
            if misfit <= (1.01 * NOISE + 2 * growth.misfit) * values[-1]:
                values_there.append(max(0.0, constant + slope * size**exponent))
    return values_there


def fit_power_law(points: Sequence[tuple[float, float]]) -> PowerLaw:
    """Return the power law fitted by least squares on logs, trying constants below the smallest
    value."""
    smallest = min(value for _, value in points)
    if len(points) == 2:  # they cannot separate a constant from an exponent
        return fit_line(points)
    best = _best(points, smallest, [i / 10 for i in range(10)])
    near = best.constant / smallest
    return _best(points, smallest, [min(max(near + i / 50, 0.0), 0.98) for i in range(-4, 5)])


def fit_line(points: Sequence[tuple[float, float]]) -> PowerLaw:
    """Return the straight line in log-log, a power law without a constant."""
    return _fit_power(points, 0.0)


def _best(points: Sequence[tuple[float, float]], smallest: float, shares: list[float]) -> PowerLaw:
    return min((_fit_power(points, share * smallest) for share in shares), key=_badness)


def _badness(growth: PowerLaw) -> tuple[float, float]:
    return (round(growth.misfit, 6), growth.constant)


def _fit_power(points: Sequence[tuple[float, float]], constant: float) -> PowerLaw:
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(value - constant) for _, value in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    variance = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / variance
    slope = min(max(slope, 0.0), _MAX_EXPONENT)
    factor = math.exp(mean_y - slope * mean_x)
    misfit = max(abs(math.log(value / (constant + factor * size**slope))) for size, value in points)
    return PowerLaw(constant, factor, slope, misfit)
