"""One number from counters: how much of a workload's time a smaller slice stretches.

The latent is ``log(B / A)`` of ``physics`` on the whole GPU. It is learnt from what counters show
there (memory and kernel activity, power, step time) by Gaussian processes over small sets of
features; no set and no smoothness is chosen, their predictions are averaged in log slow-down.
Averaging needs no selection on a handful of models, and a missing counter only drops the sets
that need it. Each process is a few rows and weights: served by numpy, stored as JSON.
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
from berth.predictor.families.slices.workload import Point, SliceWorkload

LATENT_SCHEMA = "berth.slice-latents/1"
SIGNAL = 1.5
"""Prior variance of the latent about its mean."""
LATENT_SPREAD = 0.7
"""Log error of a latent, that a probe is weighed against."""
PROBE_NOISE = 0.03
"""Log error of a probe's own time."""
_LEAST_UTILIZATION = 0.005
_GRID = np.linspace(LATENT_LEAST, LATENT_MOST, 361)


def features(workload: SliceWorkload, point: Point) -> dict[str, float]:
    """Return what is known of the point, by feature name; unknown ones are absent."""
    values = {"log_step": math.log(point.seconds), "log_batch": math.log(point.batch)}
    if point.memory_utilization is not None:
        busy = max(point.memory_utilization, _LEAST_UTILIZATION)
        values["log_memory"] = math.log(busy)
    if point.sm_utilization is not None:
        values["sm"] = point.sm_utilization
    idle, most = workload.idle_power_w, workload.power_limit_w
    if point.power_w is not None and idle is not None and most is not None:
        values["power"] = min(max((point.power_w - idle) / (most - idle), 0.0), 1.2)
    return values


class Member(Document):
    """One Gaussian process over standardised features, at one sharpness of the load model."""

    features: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    length: float = Field(gt=0)
    sharpness: float = Field(ge=1)
    mean: float
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


class Family(Document):
    """The members that need the same counters, and where they were trained."""

    name: str
    needs: tuple[str, ...]
    members: tuple[Member, ...] = Field(min_length=1)
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Range of each needed feature in training."""


class LatentFile(Document):
    """``latents.json`` of a bundle, best family first."""

    schema_: str = Field(default=LATENT_SCHEMA, alias="schema")
    families: tuple[Family, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Latents:
    """Latents of some workloads by member, ready to be asked for any slice."""

    sharpness: tuple[float, ...]
    values: Floats
    """Members x workloads."""

    def log_slowdown(self, effective: Floats) -> Floats:
        """Return the mean over members for each workload (one effective share a workload)."""
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
        """Return the latents of one workload moved towards what its probes on slices showed."""
        noise = math.hypot(PROBE_NOISE, unsteadiness)
        moved = np.empty_like(self.values)
        for i, (value, p) in enumerate(zip(self.values, self.sharpness, strict=True)):
            cost = ((_GRID - value[0]) / LATENT_SPREAD) ** 2
            for seen, share in zip(probe_log, probe_effective, strict=True):
                cost = cost + ((log_slowdown(_GRID, share, p) - seen) / noise) ** 2
            moved[i] = _GRID[int(np.argmin(cost))]
        return Latents(self.sharpness, moved)

    def centre(self) -> tuple[float, float]:
        """Return the mean latent and sharpness of the first workload, for saying what bounds it."""
        return float(self.values[:, 0].mean()), float(np.mean(self.sharpness))


def kernel(left: Floats, right: Floats, length: float) -> Floats:
    """Return the squared exponential covariance between standardised rows."""
    apart = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(SIGNAL * np.exp(-0.5 * apart / length**2), dtype=np.float64)


def latents(family: Family, known: Sequence[Mapping[str, float]]) -> Latents:
    """Return the latents of workloads whose needed features are all known."""
    values = []
    for member in family.members:
        raw = np.array([[k[name] for name in member.features] for k in known])
        rows = (raw - np.array(member.centre)) / np.array(member.scale)
        values.append(
            member.mean + kernel(rows, np.array(member.rows), member.length) @ member.weights
        )
    return Latents(tuple(m.sharpness for m in family.members), np.array(values))


def outside(family: Family, known: Mapping[str, float], slack: float = 0.5) -> str | None:
    """Return a sentence naming a feature that is far outside of training; None where none is."""
    for name, low, high in zip(family.needs, family.low, family.high, strict=True):
        room = slack * (high - low)
        if not low - room <= known[name] <= high + room:
            return f"{name} is {known[name]:.3g}; the bundle was trained on {low:.3g} to {high:.3g}"
    return None
