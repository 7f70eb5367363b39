"""How long a training step of a model takes on each platform.

On a device that was measured: its cost model and what the learners add (``calibrated``). On
another: the head of the nearest kind (GPU or CPU), each rate moved by the ratio of the two roofs
(``prior``; the same processor with other cores: ``scaled``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.graph.latency.features import graph_features, work_of
from berth.predictor.families.training_step import bundle as bundles
from berth.predictor.families.training_step.bundle import Head, StepModel
from berth.predictor.families.training_step.step_costs import cost_seconds, step_features, terms
from berth.predictor.families.training_step.step_widths import family_widths
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.roofs import Numbers, Roof, roof_of

_HALF, _WHOLE = 2, 4
"""Bytes of an element in mixed precision and in fp32."""


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """A training step on a platform."""

    platform: str
    precision: str
    """``amp``: automatic mixed precision."""
    batch: int
    seconds: Interval
    """Of the whole step; 90 %."""
    basis: Basis
    learnt_on: str
    """The device whose head it is."""
    bound: Bound
    """What the largest part of the cost model's time goes to."""

    @property
    def samples_per_s(self) -> float:
        """At this batch."""
        return self.batch / self.seconds.mid


@cache
def shipped() -> StepModel:
    """The bundle that comes with Berth. Raises DocumentError."""
    return bundles.load()


def predict(
    graph: ModelGraph,
    names: Sequence[str],
    platforms: Mapping[str, Platform],
    model: StepModel | None = None,
    cores: int | None = None,
) -> list[StepPrediction]:
    """A training step of the graph at its batch on these platforms, in their order.

    ``cores``: of CPUs; default: all of them.
    """
    model = model or shipped()
    features = graph_features(work_of(graph))[None]
    batch = np.array([float(graph.batch)])
    table = terms(features, batch)
    rest = {}
    found = []
    for name in names:
        head = _head(model, platforms[name])
        entry = head.entry
        if entry.platform not in rest:
            rows = step_features(features, batch, np.zeros(1), head.rates[None])
            rest[entry.platform] = float(head.rest(rows)[0])
        units = cores if cores is not None and not platforms[name].is_gpu else platforms[name].cores
        ratio, basis, log_width = _moved(head, platforms[name], platforms, units)
        seconds = float(cost_seconds(table, (head.rates * ratio)[None])[0])
        middle, factor = seconds * math.exp(rest[entry.platform]), math.exp(log_width)
        parts = (table[0] * head.rates * ratio).tolist()
        found.append(
            StepPrediction(
                name, entry.precision, graph.batch,
                Interval(middle / factor, middle, middle * factor), basis, entry.platform,
                _bound(parts),
            )
        )  # fmt: skip
    return found


def _head(model: StepModel, platform: Platform) -> Head:
    kinds = [head for head in model.heads if head.entry.is_gpu == platform.is_gpu] or model.heads
    same = [head for head in kinds if head.entry.platform == platform.name]
    return (same or list(kinds))[0]


def _moved(
    head: Head, platform: Platform, platforms: Mapping[str, Platform], cores: int
) -> tuple[Floats, Basis, float]:
    """(ratios of roofs, basis, half width in log) on a platform with so many cores."""
    entry = head.entry
    families = family_widths().get(entry.platform)
    here = max(entry.here.log_width, families.log_width if families else 0.0)
    if platform.name == entry.platform and (entry.is_gpu or cores == entry.cores):
        return np.ones(len(head.rates)), Basis.CALIBRATED, here
    home = platforms.get(entry.platform)
    if home is None:
        from berth.predictor.hardware import platforms as catalogue  # noqa: PLC0415 - a site's own folder

        home = catalogue.shipped()[entry.platform]
    first = roof_of(home, {**platforms, home.name: home}, entry.cores)
    second = roof_of(platform, platforms, cores)
    basis = Basis.SCALED if platform.name == entry.platform else Basis.PRIOR
    return roof_ratios(first, second), basis, max(entry.elsewhere.log_width, here)


def _bound(parts: Sequence[float]) -> Bound:
    """By the parts of the cost model's time, in the order of ``TERMS``."""
    sums = {
        Bound.COMPUTE: sum(parts[:2]), Bound.MEMORY: sum(parts[2:5]), Bound.LAUNCH: parts[5],
    }  # fmt: skip
    return max(sums, key=lambda bound: sums[bound])


def roof_ratios(first: Roof, second: Roof) -> Floats:
    """[len(TERMS)] a term's time on the second over its time on the first, by their roofs.

    GPUs train in mixed precision, CPUs in fp32.
    """
    flops = _peak(first) / _peak(second)
    bandwidth = first.dram_bytes / second.dram_bytes * _width(second) / _width(first)
    launch = second.launch_s / first.launch_s
    return np.array([flops, flops, bandwidth, bandwidth, bandwidth, launch])


def _peak(roof: Roof) -> float:
    return roof.matrix_flops[Numbers.FP16 if roof.is_gpu else Numbers.FP32]


def _width(roof: Roof) -> int:
    return _HALF if roof.is_gpu else _WHOLE
