"""The Forecast: all predictions for one workload, stored as JSON and looked up at job submission.

Berth computes a Forecast when a workload is added to the store or a bundle changes. The daemon
loads the JSON and queries the Forecast at submit time. This module needs plain dataclasses and the
standard library only: loading a Forecast costs microseconds and loads no model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.core import nodes as several
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
    rounded,
)
from berth.predictor.core.sizes import Growth, PowerLaw, SizeGrowth, growth_to, memory_with

FORECAST_SCHEMA = "berth.forecast/1"


class Unit(StrEnum):
    """The unit of work that a predicted time refers to."""

    JOB = "job"
    """The whole job. Only times of this unit are compared with a job's time limit."""
    EPOCH = "epoch"
    STEP = "step"
    """One training step, or one inference of a batch."""
    REQUEST = "request"
    TOKEN = "token"  # no password  # noqa: S105  # nosec B105


@dataclass(frozen=True, slots=True)
class SourceShare:
    """One predictor whose estimate entered a combined prediction, with its weight."""

    source: str
    """Name of the family and its method, for example ``graph: operators``."""
    weight: float
    """Weight of this source in the mean of log times, 0 to 1."""
    log_width: float
    """Half width of this source's own 90 % interval, in natural log of time."""
    situation: str
    """Situation in which this source's error was measured, for example ``unseen family``."""


@dataclass(frozen=True)
class Forecast:
    """Predictions for one workload by platform, cores or GPUs, and problem size; and the devices
    and resources that the workload needs."""

    workload: str
    kind: str
    """Kind of workload: ``program``, ``model-graph``, ``language-model``, ``slices``, ``history``
    ..."""
    digest: str
    """``sha256:`` digest of the workload's document. A changed document needs a new forecast."""
    bundle: str
    """Ids of the bundles that the predictions were computed with, joined by ``+``."""
    targets: tuple[str, ...]
    """Devices that the program runs on: ``cpu``, ``cuda``, ``hip``."""
    architecture: str
    instruction_sets: tuple[str, ...]
    threads: int
    ranks: int
    gpus: int
    container: str | None
    reference_platform: str
    reference_runtime_s: float | None
    sizes: SizeGrowth
    curves: Mapping[str, PredictionCurve]
    """Predictions by platform name."""
    unit: Unit = Unit.JOB
    """Unit of every predicted time; ``JOB`` where the workload states its amount of work."""
    families: tuple[str, ...] = ()
    """Names of the families that predicted the workload."""
    sources: Mapping[str, tuple[SourceShare, ...]] = field(default_factory=dict)
    """The combined sources of each platform's prediction, by platform, largest weight first."""
    doubted: Mapping[str, str] = field(default_factory=dict)
    """Platforms where recent jobs of the workload fell outside their 90 % intervals too often, each
    with a sentence that says so."""
    follows_shape: bool = False
    """Whether the program's script adapts to the number of tasks and cores that the scheduler
    allocates."""
    ran_on: tuple[str, ...] = ()
    """Platforms on which the program has run. They count as compatible even where its stated
    requirements say otherwise."""
    nodes: several.NodeScaling | None = None
    """Change of time and memory with the number of nodes. None: unknown; predictions then ignore
    the number of nodes."""

    @cached_property
    def content_digest(self) -> str:
        """Return a digest of the whole forecast; equal forecasts have equal digests in every
        process."""
        text = json.dumps(self._as_data(), separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @cached_property
    def has_measured_time(self) -> bool:
        """Return whether the workload's time was measured on one of the forecast's platforms."""
        points = (point for curve in self.curves.values() for point in curve.points)
        return any(point.basis is Basis.MEASURED for point in points)

    @property
    def whole_job(self) -> bool:
        """Return whether predicted times refer to the whole job; only such times are compared with
        time limits."""
        return self.unit is Unit.JOB

    @property
    def main_nodes(self) -> int:
        """Return the number of nodes that the times in ``curves`` refer to; their cores or GPUs are
        per node."""
        return 1 if self.nodes is None else self.nodes.base

    def prediction(self, platform: str, units: int, nodes: int = 1) -> Prediction | None:
        """Return the prediction at the largest computed number of cores or GPUs that does not
        exceed ``units``.

        ``units``: cores, or GPUs, of all nodes together. Returns None where the platform was not
        forecast.
        """
        curve = self.curves.get(platform)
        if curve is None:
            return None
        if self.nodes is None:
            return curve.nearest(units)
        own = self.nodes.units(units, nodes)
        return self.nodes.moved(curve.nearest(own), nodes, own)

    def runtime_at(
        self, platform: str, units: int, size: float | None = None, nodes: int = 1
    ) -> Interval | None:
        """Return the run time in seconds with ``units`` cores (CPU platforms) or GPUs in all, on
        ``nodes`` nodes.

        ``size``: the problem size. None: the size of the profile's main run, multiplied by the
        ratio of nodes where the profiled problem grew with the number of nodes. Returns None where
        the platform was not forecast.
        """
        curve = self.curves.get(platform)
        if curve is None:
            return None
        own = units if self.nodes is None else self.nodes.units(units, nodes)
        time = None if self.nodes is None else self.nodes.learnt_at(platform, own, nodes)
        if time is None:
            time = curve.runtime_at(own)
            if self.nodes is not None:
                time = time.times(self.nodes.ratio(platform, nodes).time)
        if size is None:
            return time
        return self.growth(size, nodes).runtime(time, curve.nearest(own).launch_s)

    def ratio(
        self, platform: str, units: int, other: str, other_units: int, nodes: int = 1
    ) -> Interval | None:
        """Return how many times faster the workload runs on ``platform`` than on ``other``, with
        the 90 % interval of the ratio.

        The error that both predictions share is not in the interval. ``units``, ``other_units``:
        cores or GPUs of all ``nodes`` together. Exactly 1 for the same platform and units; None
        where one of the platforms was not forecast.
        """
        here, there = self.at(platform, units, nodes), self.at(other, other_units, nodes)
        if here is None or there is None:
            return None
        if (platform, units) == (other, other_units):
            return Interval(1.0, 1.0, 1.0)
        return here.times_faster_than(there)

    def growth(self, size: float | None, nodes: int = 1) -> Growth:
        """Return the effect of problem ``size`` (None: as profiled) on time and memory on ``nodes``
        nodes."""
        if self.nodes is not None:
            size = self.nodes.size(size, nodes)
        return growth_to(self.sizes, size)

    def at(self, platform: str, units: int, nodes: int = 1) -> Prediction | None:
        """Return the prediction with ``units`` cores or GPUs; None: platform not forecast."""
        point = self.prediction(platform, units, nodes)
        runtime = self.runtime_at(platform, units, nodes=nodes)
        if point is None or runtime is None:
            return None
        factor, energy = runtime.mid / point.runtime_s.mid, point.energy_j
        return replace(
            point,
            cores=point.cores if point.gpus else units,
            runtime_s=runtime,
            speedup=point.speedup.scaled(1 / factor),
            energy_j=None if energy is None else energy.scaled(factor),
        )

    def memory_at(
        self, platform: str, size: float | None = None, nodes: int = 1
    ) -> MemoryUse | None:
        """Return the peak memory of all nodes together, and of all GPUs together, at a problem size
        (None: as profiled).

        Returns None where the platform was not forecast.
        """
        curve = self.curves.get(platform)
        if curve is None:
            return None
        growth = None if size is None else self.growth(size, nodes)
        ratio = self.memory_ratio(platform, nodes)
        return memory_with(curve.points[0].memory, growth, ratio)

    def profiled_memory(self, platform: str, units: int, nodes: int = 1) -> MemoryUse | None:
        """Return the peak memory of the profile's main run with ``units`` cores or GPUs in all;
        None: platform not forecast."""
        curve = self.curves.get(platform)
        if curve is None:
            return None
        own = units if self.nodes is None else self.nodes.units(units, nodes)
        return curve.nearest(own).memory

    def memory_ratio(self, platform: str, nodes: int) -> Interval | None:
        """Return the ratio of memory on ``nodes`` nodes (of all nodes together) to the main run's
        memory; None: the effect of nodes is unknown."""
        return None if self.nodes is None else self.nodes.ratio(platform, nodes).memory

    def source_of(self, platform: str) -> str:
        """Return the sources of a platform's prediction as text; empty: unknown.

        For example ``graph: measured models 62 %, graph: operators 38 %``.
        """
        shares = self.sources.get(platform, ())
        if len(shares) == 1:
            return shares[0].source
        return ", ".join(f"{share.source} {share.weight:.0%}" for share in shares)

    def to_json(self) -> str:
        """Return compact JSON text on one line."""
        return json.dumps(self._as_data(), separators=(",", ":"), allow_nan=False)

    def _as_data(self) -> dict[str, Any]:
        """Return the forecast as a JSON-serialisable dictionary."""
        return {
            "schema": FORECAST_SCHEMA,
            "workload": self.workload,
            "kind": self.kind,
            "digest": self.digest,
            "bundle": self.bundle,
            "targets": self.targets,
            "architecture": self.architecture,
            "instruction_sets": self.instruction_sets,
            "threads": self.threads,
            "ranks": self.ranks,
            "gpus": self.gpus,
            "container": self.container,
            "reference_platform": self.reference_platform,
            "reference_runtime_s": self.reference_runtime_s,
            "unit": self.unit.value,
            "families": self.families,
            "sources": {
                name: [
                    [s.source, round(s.weight, 4), round(s.log_width, 4), s.situation]
                    for s in shares
                ]
                for name, shares in self.sources.items()
            },
            "sizes": {
                "size": self.sizes.size,
                "peak_memory_bytes": self.sizes.peak_memory_bytes,
                "measured": self.sizes.measured,
                "runtime": _growth_out(self.sizes.runtime),
                "memory": _growth_out(self.sizes.memory),
                "peak_is_bound": self.sizes.peak_is_bound,
                "gpu_peak_bytes": self.sizes.gpu_peak_bytes,
            },
            "curves": {name: _curve_out(curve) for name, curve in self.curves.items()},
            "follows_shape": self.follows_shape,
            "doubted": dict(self.doubted),
            "ran_on": self.ran_on,
            "nodes": None if self.nodes is None else several.to_data(self.nodes),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Forecast:
        """Parse text that ``to_json`` wrote. Raises DocumentError for any other text."""
        try:
            data = json.loads(text)
            schema = data["schema"]
            if schema != FORECAST_SCHEMA:
                raise DocumentError(
                    "forecast",
                    f"is {schema!r}, not {FORECAST_SCHEMA!r}",
                    key="schema",
                    hint="berth workload refresh makes it anew",
                )
            sizes = data["sizes"]
            return cls(
                workload=data["workload"],
                kind=data["kind"],
                digest=data["digest"],
                bundle=data["bundle"],
                targets=tuple(data["targets"]),
                architecture=data["architecture"],
                instruction_sets=tuple(data["instruction_sets"]),
                threads=data["threads"],
                ranks=data["ranks"],
                gpus=data["gpus"],
                container=data["container"],
                reference_platform=data["reference_platform"],
                reference_runtime_s=data["reference_runtime_s"],
                unit=Unit(data["unit"]),
                families=tuple(data["families"]),
                sources={
                    name: tuple(SourceShare(*share) for share in shares)
                    for name, shares in data["sources"].items()
                },
                sizes=SizeGrowth(
                    size=sizes["size"],
                    peak_memory_bytes=sizes["peak_memory_bytes"],
                    measured=tuple(sizes["measured"]),
                    runtime=_growth_in(sizes["runtime"]),
                    memory=_growth_in(sizes["memory"]),
                    peak_is_bound=bool(sizes["peak_is_bound"]),
                    gpu_peak_bytes=sizes["gpu_peak_bytes"],
                ),
                curves={
                    name: _curve_in(points, data["workload"], name)
                    for name, points in data["curves"].items()
                },
                doubted=dict(data["doubted"]),
                follows_shape=bool(data["follows_shape"]),
                ran_on=tuple(data["ran_on"]),
                nodes=None if data["nodes"] is None else several.from_data(data["nodes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DocumentError("forecast", f"is not one that Berth wrote: {error!r}") from None


def _growth_out(growth: PowerLaw | None) -> list[float] | None:
    return (
        None if growth is None else [growth.constant, growth.factor, growth.exponent, growth.misfit]
    )


def _growth_in(data: Any) -> PowerLaw | None:
    return None if data is None else PowerLaw(*(float(v) for v in data))


def _interval_in(data: Any) -> Interval:
    low, mid, high = data
    return Interval(low, mid, high)


def _maybe_out(interval: Interval | None) -> list[float] | None:
    return None if interval is None else rounded(interval)


def _maybe_in(data: Any) -> Interval | None:
    return None if data is None else _interval_in(data)


def _memory_in(data: Any) -> MemoryUse:
    host, gpu, held_in = data
    return MemoryUse(_maybe_in(host), _maybe_in(gpu), None if held_in is None else float(held_in))


def _curve_out(curve: PredictionCurve) -> list[list[Any]]:
    return [
        [
            p.cores,
            p.gpus,
            p.basis.value,
            p.bound.value,
            rounded(p.speedup),
            rounded(p.runtime_s),
            [
                _maybe_out(p.memory.host_bytes),
                _maybe_out(p.memory.gpu_bytes),
                p.memory.gpu_held_in_bytes,
            ],
            _maybe_out(p.energy_j),
            p.abstained,
            None if p.unit_power_w is None else float(f"{p.unit_power_w:.6g}"),
            None if p.own_log_width is None else float(f"{p.own_log_width:.6g}"),
            *([float(f"{p.launch_s:.6g}")] if p.launch_s else []),
        ]
        for p in curve.points
    ]


def _curve_in(points: Any, workload: str, platform: str) -> PredictionCurve:
    if not points:
        raise ValueError(f"no points for {platform}")
    return PredictionCurve(tuple(_point_in(point, workload, platform) for point in points))


def _point_in(point: Any, workload: str, platform: str) -> Prediction:
    cores, gpus, basis, bound, speedup, runtime, memory, energy, abstained, power_w, own, *launch = (
        point
    )
    return Prediction(
        workload=workload,
        platform=platform,
        cores=cores,
        gpus=gpus,
        basis=Basis(basis),
        speedup=_interval_in(speedup),
        runtime_s=_interval_in(runtime),
        memory=_memory_in(memory),
        energy_j=_maybe_in(energy),
        bound=Bound(bound),
        abstained=abstained,
        unit_power_w=None if power_w is None else float(power_w),
        own_log_width=None if own is None else float(own),
        launch_s=float(launch[0]) if launch else 0.0,
    )
