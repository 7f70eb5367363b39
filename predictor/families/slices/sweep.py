"""Predict slow-downs from a workload's times on the whole GPU over batch sizes and processes.

The load model describes ``n`` processes that share a GPU, each with one batch of ``b`` items in
progress. The time per batch is a smooth maximum (``physics``) of two lower bounds, in seconds:

- ``A = s0 + s1 b``: kernel launches and host work of one batch, which no slice changes;
- ``B = n (b / C + w0) / e``: GPU work of ``n`` batches.

Four of these numbers and the sharpness ``p`` of the maximum are fitted in log time with a robust
loss:

- ``s0`` (s), ``s1`` (s/item): fixed and per-item host time;
- ``C`` (items/s): rate of the fully used whole GPU;
- ``w0`` (s/batch): GPU work that does not depend on the batch size, such as reading weights;
- ``e``: effective share of the slice, 0 to 1 (from the bundle, 1 on the whole GPU).

The bounds are those of operational analysis (Denning and Buzen, 1978) for a delay and a shared
station. Nothing is learnt from other workloads but the effective shares.

A run on a slice scales the log slow-downs of all slices by one factor, as with batch equivalence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.physics import log_smooth_max

LEAST_POINTS = 4
"""Least number of different loads (batch size and processes) that the load model is fitted to."""
LEAST_RANGE = 8.0
"""Least ratio of the largest to the smallest load (batch size x processes).

A smaller ratio does not show at which load the GPU is fully used.
"""
_LOSS_SCALE = 0.05
"""Log error beyond which the loss grows linearly instead of quadratically."""
_STEPS = 80
"""Largest number of steps of the fit from one start."""
_STARTS = tuple((sharp, host) for sharp in (0.0, 1.0, 2.0) for host in (-3.0, -1.0))
"""Starting values of the fit: log of ``p - 1``, and log of the host time over one item's GPU
time."""


@dataclass(frozen=True, slots=True)
class LoadModel:
    """A workload's fitted load model: its time per batch over batch sizes, processes and GPU share.

    ``theta`` holds the logs of s0 (s), s1 (s/item), C (items/s), w0 (s/batch) and ``p - 1``.
    """

    theta: tuple[float, float, float, float, float]
    misfit: float
    """Median absolute log error over the measurements that the model was fitted to."""

    @property
    def sharpness(self) -> float:
        """Return ``p``, the exponent of the smooth maximum."""
        return 1.0 + float(np.exp(self.theta[4]))

    def logs(self, batch: Floats, processes: Floats, effective: Floats) -> tuple[Floats, Floats]:
        """Return the logs of host time A and GPU time B in seconds, on slices with these effective
        shares."""
        return _logs(np.array(self.theta), batch, processes, effective)

    def log_time(self, batch: Floats, processes: Floats, effective: Floats) -> Floats:
        """Return the log of the seconds per batch in one process, on slices with these effective
        shares."""
        return log_smooth_max(*self.logs(batch, processes, effective), self.sharpness)

    def whole_s(self, batch: float, processes: float) -> float:
        """Return the seconds per batch in one process on the whole GPU."""
        whole = np.ones(1)
        return float(np.exp(self.log_time(batch * whole, processes * whole, whole)[0]))


def can_fit(batch: Sequence[float], processes: Sequence[int]) -> bool:
    loads = [b * n for b, n in zip(batch, processes, strict=True)]
    return len(set(zip(batch, processes, strict=True))) >= LEAST_POINTS and (
        max(loads) >= LEAST_RANGE * min(loads)
    )


def fit(batch: Sequence[float], processes: Sequence[int], step_s: Sequence[float]) -> LoadModel:
    """Return a workload's load model, fitted to seconds per batch (``step_s``) on the whole GPU.

    Raises UsageError if there are too few loads or their range is too small.
    """
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
        descended = _descend(start, b, n, log_t, typical)
        if best is None or descended[0] < best[0]:
            best = descended
    if best is None:
        raise AssertionError("there is at least one start")
    theta = best[1]
    off = np.abs(_log_time(theta, b, n) - log_t)
    return LoadModel(tuple(float(v) for v in theta), float(np.median(off)))  # type: ignore[arg-type]


_PULL = np.array([0.0, 0.01, 0.0, 0.01, 0.03])
"""Strength with which each element of ``theta`` is drawn to a typical value.

It is just large enough to make the fit unique.
"""


def _logs(theta: Floats, b: Floats, n: Floats, effective: Floats) -> tuple[Floats, Floats]:
    """Return the logs of host time and GPU time in seconds, for load-model parameters ``theta``."""
    log_a = np.logaddexp(theta[0], theta[1] + np.log(b))
    log_b = np.log(n) + np.logaddexp(np.log(b) - theta[2], theta[3]) - np.log(effective)
    return np.asarray(log_a), np.asarray(log_b)


def _log_time(theta: Floats, b: Floats, n: Floats) -> Floats:
    """Return the log of the seconds per batch on the whole GPU, for load-model parameters
    ``theta``."""
    return log_smooth_max(*_logs(theta, b, n, np.ones_like(b)), 1.0 + np.exp(theta[4]))


def _jacobian(theta: Floats, b: Floats, n: Floats) -> Floats:
    """Return the derivatives of the log time per batch by the load model's parameters (loads x
    5), by central differences."""
    steps = 1e-5 * np.eye(len(theta))
    return np.stack(
        [(_log_time(theta + h, b, n) - _log_time(theta - h, b, n)) / 2e-5 for h in steps], axis=1
    )


def _descend(
    theta: Floats, b: Floats, n: Floats, log_t: Floats, typical: Floats
) -> tuple[float, Floats]:
    """Return (final loss, load-model parameters) after fitting from one start, ``theta``.

    Levenberg-Marquardt with reweighted least squares minimises a soft-L1 loss, plus the pull to
    ``typical`` values.
    """
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


ANCHOR = 0.5
"""Share of the load model's error at a measured load that is corrected.

It is half, because the load model and a single measurement have errors of about the same size.
"""
MOST_MISFIT = 0.12
"""Median log error of the fit above which the prediction abstains (0.04 on the training data)."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load on a GPU or slice: a batch size and a number of processes."""

    batch: float
    processes: float
    log_whole_s: float | None
    """Log of the measured seconds per batch on the whole GPU; None: not measured."""


@dataclass(frozen=True, slots=True)
class SeenProbe:
    """The measured slow-down of one load on one MIG slice."""

    load: Load
    effective: float
    """Effective share of the slice, 0 to 1."""
    log_slowdown: float


def log_slowdowns(load_model: LoadModel, load: Load, effective: Floats) -> Floats:
    """Return the log slow-down of a load on slices with these effective shares.

    Where the time on the whole GPU was measured, it replaces part of the load model's (``ANCHOR``).
    """
    batch, processes = np.full(len(effective), load.batch), np.full(len(effective), load.processes)
    whole = load_model.log_time(batch, processes, np.ones_like(batch))
    off = 0.0 if load.log_whole_s is None else load.log_whole_s - whole
    slice_ = load_model.log_time(batch, processes, effective)
    return np.asarray(slice_ - whole - ANCHOR * off, dtype=np.float64)


PROBE_NOISE = 0.05
"""Log slow-down below which a run on a slice tells little about other slices."""


def probe_factor(
    seen: Sequence[SeenProbe], log_slowdowns: Callable[[Load, Floats], Floats]
) -> float:
    """Return the factor on all log slow-downs that explains the measured ones best.

    It is the least-squares factor, drawn to 1 by a prior that weighs as much as a run with a log
    slow-down of ``PROBE_NOISE``. ``log_slowdowns``: of a load on slices with effective shares.
    """
    prior = PROBE_NOISE**2
    predicted = [float(log_slowdowns(p.load, np.array([p.effective]))[0]) for p in seen]
    products = sum(max(p.log_slowdown, 0.0) * y for p, y in zip(seen, predicted, strict=True))
    return (products + prior) / (sum(y * y for y in predicted) + prior)
