"""The load model: one workload's times over batches and processes on the whole GPU, fitted.

A closed system of ``n`` processes, each with one batch ``b`` in flight, sharing one GPU:

* alone, a batch takes at least ``A = s0 + s1 b`` (launches and host; no slice changes it);
* together, ``n`` batches take at least ``B = n (b / C + w0) / share``, where ``C`` is the rate of
  the saturated whole GPU and ``w0`` the work that each batch costs anyway (reading the weights).

These are the asymptotic bounds of operational analysis (Denning and Buzen, 1978) for a delay and
a shared station; ``physics`` joins them. Five numbers, fitted in log time with a robust loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.physics import log_smooth_max

LEAST_POINTS = 4
LEAST_RANGE = 8.0
"""Largest over smallest load (batch x processes): below it nothing shows where the GPU fills."""
_LOSS_SCALE = 0.05
_STEPS = 80
_STARTS = tuple((sharp, host) for sharp in (0.0, 1.0, 2.0) for host in (-3.0, -1.0))


@dataclass(frozen=True, slots=True)
class LoadModel:
    """``theta``: logs of s0 (s), s1 (s an item), C (items/s), w0 (s a batch) and of ``p - 1``."""

    theta: tuple[float, float, float, float, float]
    misfit: float
    """Median absolute log error over the points that it was fitted to."""

    @property
    def sharpness(self) -> float:
        """``p``."""
        return 1.0 + float(np.exp(self.theta[4]))

    def logs(self, batch: Floats, processes: Floats, effective: Floats) -> tuple[Floats, Floats]:
        """Logs of A and B in seconds."""
        return _logs(np.array(self.theta), batch, processes, effective)

    def log_time(self, batch: Floats, processes: Floats, effective: Floats) -> Floats:
        """Log seconds a batch in one process."""
        return log_smooth_max(*self.logs(batch, processes, effective), self.sharpness)


def can_fit(batch: Sequence[float], processes: Sequence[int]) -> bool:
    """True where there are enough different loads to fit the load model."""
    loads = [b * n for b, n in zip(batch, processes, strict=True)]
    return len(set(zip(batch, processes, strict=True))) >= LEAST_POINTS and (
        max(loads) >= LEAST_RANGE * min(loads)
    )


def fit(batch: Sequence[float], processes: Sequence[int], step_s: Sequence[float]) -> LoadModel:
    """The load model from times on the whole GPU. Raises UsageError where they cannot tell it."""
    if not can_fit(batch, processes):
        raise UsageError(
            "too few different loads were measured on the whole GPU",
            hint=f"measure at least {LEAST_POINTS} batches, the largest {LEAST_RANGE:.0f} times "
            "the smallest; best also with several processes",
        )
    b, n = np.array(batch, dtype=np.float64), np.array(processes, dtype=np.float64)
    log_t = np.log(np.array(step_s, dtype=np.float64))
    rate = float((n * b / np.exp(log_t)).max())
    first = float(log_t[b == b.min()].min())
    typical = np.array([0.0, np.log(0.1 / rate), 0.0, np.log(0.1 / rate), 1.0])
    best: tuple[float, Floats] | None = None
    for sharp, host in _STARTS:
        start = np.array([first, host - np.log(rate), np.log(rate), -1 - np.log(rate), sharp])
        found = _descend(start, b, n, log_t, typical)
        if best is None or found[0] < best[0]:
            best = found
    if best is None:
        raise AssertionError("there is at least one start")
    theta = best[1]
    off = np.abs(_log_time(theta, b, n) - log_t)
    return LoadModel(tuple(float(v) for v in theta), float(np.median(off)))  # type: ignore[arg-type]


_PULL = np.array([0.0, 0.01, 0.0, 0.01, 0.03])
"""How strongly each number is held to its typical value: just enough to be determined at all."""


def _logs(theta: Floats, b: Floats, n: Floats, effective: Floats) -> tuple[Floats, Floats]:
    log_a = np.logaddexp(theta[0], theta[1] + np.log(b))
    log_b = np.log(n) + np.logaddexp(np.log(b) - theta[2], theta[3]) - np.log(effective)
    return np.asarray(log_a), np.asarray(log_b)


def _log_time(theta: Floats, b: Floats, n: Floats) -> Floats:
    return log_smooth_max(*_logs(theta, b, n, np.ones_like(b)), 1.0 + np.exp(theta[4]))


def _jacobian(theta: Floats, b: Floats, n: Floats) -> Floats:
    log_a, log_b = _logs(theta, b, n, np.ones_like(b))
    p = 1.0 + np.exp(theta[4])
    total = np.logaddexp(p * log_a, p * log_b)
    part_a, part_b = np.exp(p * log_a - total), np.exp(p * log_b - total)
    grown = np.exp(theta[1] + np.log(b) - log_a)
    work = np.exp(np.log(n) + np.log(b) - theta[2] - log_b)
    by_p = (part_a * log_a + part_b * log_b) / p - total / p**2
    columns = (
        part_a * (1 - grown), part_a * grown, -part_b * work, part_b * (1 - work), by_p * (p - 1),
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _descend(
    theta: Floats, b: Floats, n: Floats, log_t: Floats, typical: Floats
) -> tuple[float, Floats]:
    """Levenberg-Marquardt on a soft-L1 loss (IRLS weights), with the pull as extra residuals."""
    damping = 1e-2

    def cost(at: Floats) -> float:
        off = _log_time(at, b, n) - log_t
        robust = _LOSS_SCALE**2 * (np.sqrt(1 + (off / _LOSS_SCALE) ** 2) - 1).sum()
        return float(robust + 0.5 * ((_PULL * (at - typical)) ** 2).sum())

    least = cost(theta)
    for _ in range(_STEPS):
        off = _log_time(theta, b, n) - log_t
        weight = 1 / np.sqrt(1 + (off / _LOSS_SCALE) ** 2)
        jacobian = _jacobian(theta, b, n)
        normal = (jacobian.T * weight) @ jacobian + np.diag(_PULL**2)
        gradient = jacobian.T @ (weight * off) + _PULL**2 * (theta - typical)
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -gradient)
        tried = theta + np.clip(step, -2.0, 2.0)
        value = cost(tried)
        if value < least:
            small = least - value < 1e-12
            theta, least, damping = tried, value, max(damping / 4, 1e-9)
            if small:
                break
        else:
            damping *= 6
            if damping > 1e9:
                break
    return least, theta
