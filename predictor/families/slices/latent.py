"""Predict from GPU utilisation how much of a workload's time a smaller MIG slice lengthens.

The latent value is ``log(B / A)`` on the whole GPU, where

- ``A``: time of kernel launches and host work (seconds, see ``physics``);
- ``B``: time of GPU work (seconds).

One Gaussian process for each set of features predicts it from memory and kernel activity on the
whole GPU. The one of ``typical`` has no feature: it is the training models' mean. The bundle's
manifest holds the processes (training rows and weights); numpy evaluates them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.physics import LATENT_LEAST, LATENT_MOST, log_slowdown

SIGNAL = 1.5
"""Prior variance of the latent value about its mean."""
LENGTH = 2.0
"""Length scale of the covariance: standard deviations of a feature, times the root of their
number."""
SHARPNESS = 2.0
"""Sharpness of the time formula (``p`` in ``physics``)."""
LATENT_SPREAD = 0.7
"""Standard error of a predicted latent value; the weight of a probe (a run on a slice) depends on
it."""
PROBE_NOISE = 0.03
"""Standard error of the log time of a probe (a run on a slice)."""
LEAST_UTILIZATION = 0.005
"""Least memory utilisation that is distinguished from 0, before the log is taken."""
_GRID = np.linspace(LATENT_LEAST, LATENT_MOST, 361)
"""Latent values among which the one that fits the probes is searched."""


def features(sm: float | None, memory: float | None) -> dict[str, float]:
    """Return the features of a run on the whole GPU by name; unmeasured features are absent.

    ``sm``, ``memory``: utilisation of the GPU and of its memory, 0 to 1.
    """
    known = {} if sm is None else {"sm": sm}
    if memory is not None:
        known["log_memory"] = math.log(max(memory, LEAST_UTILIZATION))
    return known


class LatentProcess(Document):
    """A Gaussian process that predicts the log ratio of GPU work to host time from utilisation.

    Features are standardised.
    """

    name: str
    """Name of the method."""
    features: tuple[str, ...]
    """Names of the features, which must be known."""
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Smallest (``low``) and largest (``high``) training value of each feature."""
    mean: float
    """Mean of the latent value over the training rows."""
    rows: tuple[tuple[float, ...], ...] = Field(min_length=1)
    """Standardised training rows."""
    weights: tuple[float, ...]
    """Weight of each training row in a prediction."""

    @property
    def is_consistent(self) -> bool:
        """Return whether the sizes of all arrays fit together."""
        widths = {len(self.centre), len(self.scale), len(self.low), len(self.high)}
        widths |= {len(row) for row in self.rows}
        return (
            widths == {len(self.features)}
            and len(self.weights) == len(self.rows)
            and min(self.scale, default=1.0) > 0
        )

    def latent(self, known: Mapping[str, float]) -> float:
        """Return the log ratio of GPU work to host time of a workload with these features."""
        raw = np.array([known[name] for name in self.features])
        row = (raw - np.array(self.centre)) / np.array(self.scale)
        near = kernel(row[None, :], np.array(self.rows).reshape(len(self.rows), -1))
        return float(self.mean + (near @ self.weights)[0])

    def outside(self, known: Mapping[str, float], slack: float = 0.5) -> str | None:
        """Return a sentence on a feature far outside its training range; None: there is none.

        ``slack`` is how far outside is allowed, as a share of the width of the range.
        """
        for name, low, high in zip(self.features, self.low, self.high, strict=True):
            room = slack * (high - low)
            if not low - room <= known[name] <= high + room:
                return (
                    f"{name} is {known[name]:.3g}; the bundle was trained on {low:.3g} to "
                    f"{high:.3g}"
                )
        return None


def kernel(left: Floats, right: Floats) -> Floats:
    """Return the squared exponential covariance between two sets of standardised rows."""
    length = LENGTH * math.sqrt(max(left.shape[1], 1))
    apart = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(SIGNAL * np.exp(-0.5 * apart / length**2), dtype=np.float64)


def log_slowdowns(latent: float, effective: Floats) -> Floats:
    """Return the log slow-down of a workload on slices with these effective shares."""
    return log_slowdown(np.full(len(effective), latent), effective, SHARPNESS)


def probed(
    latent: float, logs: Sequence[float], effective: Sequence[float], unsteadiness: float
) -> float:
    """Return a workload's latent value, corrected by its runs on slices.

    ``logs`` holds the measured log slow-downs, ``effective`` the slices' effective shares;
    ``unsteadiness`` adds to the noise of the probes (log of mean over median step time).
    """
    noise = math.hypot(PROBE_NOISE, unsteadiness)
    cost = ((_GRID - latent) / LATENT_SPREAD) ** 2
    for seen, share in zip(logs, effective, strict=True):
        cost = cost + ((log_slowdown(_GRID, share, SHARPNESS) - seen) / noise) ** 2
    return float(_GRID[int(np.argmin(cost))])
