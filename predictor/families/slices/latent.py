"""Predict from GPU utilisation how much of a workload's time a smaller MIG slice lengthens.

The latent value is ``log(B / A)`` on the whole GPU, where

- ``A``: time of kernel launches and host work (seconds, see ``physics``);
- ``B``: time of GPU work (seconds).

Gaussian processes predict it from memory and kernel activity and step time on the whole GPU.
There is one process for each set of features and for several values of the sharpness in
``physics``; their log slow-downs are averaged, because the few training models are too few to
select the best one. The family ``typical`` has no feature: it is the training models' mean. Each
process is stored as JSON (training rows and weights) and evaluated with numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.families.slices.physics import LATENT_LEAST, LATENT_MOST, log_slowdown
from berth.predictor.families.slices.workload import WholeRun

LATENT_SCHEMA = "berth.slice-latents/1"
SIGNAL = 1.5
"""Prior variance of the latent value about its mean."""
LATENT_SPREAD = 0.7
"""Standard error of a predicted latent value; the weight of a probe (a run on a slice) depends on
it."""
PROBE_NOISE = 0.03
"""Standard error of the log time of a probe (a run on a slice)."""
LEAST_UTILIZATION = 0.005
"""Least memory utilisation that is distinguished from 0, before the log is taken."""
STEP = "log_step"
"""Name of the feature of the step time."""
_GRID = np.linspace(LATENT_LEAST, LATENT_MOST, 361)
"""Latent values among which the one that fits the probes is searched."""


def features(point: WholeRun) -> dict[str, float]:
    """Return the features of a measurement on the whole GPU by name; unmeasured features are
    absent."""
    values = {STEP: math.log(point.seconds)}
    if point.memory_utilization is not None:
        busy = max(point.memory_utilization, LEAST_UTILIZATION)
        values["log_memory"] = math.log(busy)
    if point.sm_utilization is not None:
        values["sm"] = point.sm_utilization
    return values


class Member(Document):
    """A trained Gaussian process that predicts the log ratio of GPU work to host time from
    utilisation and step time.

    It belongs to one sharpness of the time formula (``physics``). Features are standardised.
    """

    features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    length: float = Field(gt=0)
    """Length scale of the covariance, in standard deviations of the features."""
    sharpness: float = Field(ge=1)
    mean: float
    """Mean of the latent value over the training rows."""
    rows: tuple[tuple[float, ...], ...]
    """Standardised training rows."""
    weights: tuple[float, ...]
    """Weight of each training row in a prediction."""


class LatentGroup(Document):
    """Gaussian processes that need the same features, with the range of their training data."""

    name: str
    needs: tuple[str, ...]
    """Names of the features that must be known."""
    members: tuple[Member, ...] = Field(min_length=1)
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Smallest (``low``) and largest (``high``) training value of each needed feature."""


class LatentFile(Document):
    """The content of ``latents.json`` in a slices bundle, with the most accurate family first."""

    schema_: str = Field(default=LATENT_SCHEMA, alias="schema")
    families: tuple[LatentGroup, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Latents:
    """Log ratios of GPU work to host time by workload, which give the slow-down on any MIG
    slice."""

    sharpness: tuple[float, ...]
    """Sharpness of the time formula of each member (``p`` in ``physics``)."""
    values: Floats
    """Latent values (members x workloads)."""

    def log_slowdown(self, effective: Floats) -> Floats:
        """Return the log slow-down of each workload on a slice, averaged over the Gaussian
        processes.

        ``effective`` holds one effective share of a slice per workload.
        """
        each = [
            log_slowdown(v, effective, p) for v, p in zip(self.values, self.sharpness, strict=True)
        ]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)

    def probed(
        self,
        probe_log: Sequence[float],
        probe_effective: Sequence[float],
        unsteadiness: float,
    ) -> Latents:
        """Return one workload's log ratios of GPU work to host time, corrected by its runs on
        slices.

        ``probe_log`` holds the measured log slow-downs, and ``probe_effective`` the slices'
        effective shares. ``unsteadiness`` adds to the noise of the probes (log of mean over median
        step time).
        """
        noise = math.hypot(PROBE_NOISE, unsteadiness)
        moved = np.empty_like(self.values)
        for i, (value, p) in enumerate(zip(self.values, self.sharpness, strict=True)):
            cost = ((_GRID - value[0]) / LATENT_SPREAD) ** 2
            for seen, share in zip(probe_log, probe_effective, strict=True):
                cost = cost + ((log_slowdown(_GRID, share, p) - seen) / noise) ** 2
            moved[i] = _GRID[int(np.argmin(cost))]
        return Latents(self.sharpness, moved)

    def centre(self) -> tuple[float, float]:
        """Return the first workload's mean log ratio of GPU work to host time, and the mean
        sharpness.

        They tell whether launches or GPU work take most of the time.
        """
        return float(self.values[:, 0].mean()), float(np.mean(self.sharpness))


def kernel(left: Floats, right: Floats, length: float) -> Floats:
    """Return the squared exponential covariance between two sets of standardised rows."""
    apart = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(SIGNAL * np.exp(-0.5 * apart / length**2), dtype=np.float64)


def latents(family: LatentGroup, known: Sequence[Mapping[str, float]]) -> Latents:
    """Return each workload's log ratio of GPU work to host time, by every Gaussian process of a
    family.

    All features that the family needs must be known for each workload.
    """
    values = []
    for member in family.members:
        raw = np.array([[k[name] for name in member.features] for k in known])
        rows = (raw - np.array(member.centre)) / np.array(member.scale)
        values.append(
            member.mean + kernel(rows, np.array(member.rows), member.length) @ member.weights
        )
    return Latents(tuple(m.sharpness for m in family.members), np.array(values))


def outside(family: LatentGroup, known: Mapping[str, float], slack: float = 0.5) -> dict[str, str]:
    """Return a sentence for each feature far outside its training range, by the feature's name.

    ``slack`` is how far outside is allowed, as a share of the width of the range.
    """
    sentences = {}
    for name, low, high in zip(family.needs, family.low, family.high, strict=True):
        room = slack * (high - low)
        if not low - room <= known[name] <= high + room:
            sentences[name] = (
                f"{name} is {known[name]:.3g}; the bundle was trained on {low:.3g} to {high:.3g}"
            )
    return sentences
