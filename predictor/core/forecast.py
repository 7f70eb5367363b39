"""The Forecast: all predictions for one workload, stored as JSON and looked up at job submission.

Berth computes a Forecast when a workload is added to the store or a bundle changes. The daemon
loads the JSON and queries the Forecast at submit time: loading one takes a millisecond and no
model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property

from pydantic import TypeAdapter

from berth.pilot.errors import DocumentError
from berth.predictor.core import nodes as several
from berth.predictor.core.prediction import (
    Basis,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import Growth, SizeGrowth, growth_to

FORECAST_SCHEMA = "berth.forecast/2"


class WorkUnit(StrEnum):
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
    unit: WorkUnit = WorkUnit.JOB
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
    least_cores: int = 1
    """Fewest cores that the workload is known to run with: a program may refuse fewer than the
    threads that it was asked to start."""
    fails_on: Mapping[str, str] = field(default_factory=dict)
    """Platforms where the workload's jobs failed and no other reason is known, each with a sentence
    that says so."""
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
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    @cached_property
    def has_measured_time(self) -> bool:
        """Return whether the workload's time was measured on one of the forecast's platforms."""
        points = (point for curve in self.curves.values() for point in curve.points)
        return any(point.basis is Basis.MEASURED for point in points)

    @property
    def whole_job(self) -> bool:
        """Return whether predicted times refer to the whole job; only such times are compared with
        time limits."""
        return self.unit is WorkUnit.JOB

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
        first, second = self.at(platform, units, nodes), self.at(other, other_units, nodes)
        if first is None or second is None:
            return None
        if (platform, units) == (other, other_units):
            return Interval(1.0, 1.0, 1.0)
        return first.times_faster_than(second)

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
        self, platform: str, units: int = 1, size: float | None = None, nodes: int = 1
    ) -> MemoryUse | None:
        """Return the peak memory of all nodes together, and of all GPUs together, with ``units``
        cores or GPUs in all and at a problem size (None: as profiled).

        Returns None where the platform was not forecast.
        """
        curve = self.curves.get(platform)
        if curve is None:
            return None
        if self.nodes is None:
            own, ratio = curve.nearest(units).memory, None
        else:
            own = curve.nearest(self.nodes.units(units, nodes)).memory
            ratio = self.nodes.ratio(platform, nodes).memory
        if size is not None:
            own = self.growth(size, nodes).memory(own)
        return own if ratio is None else own.times(ratio)

    def source_of(self, platform: str) -> str:
        """Return the sources of a platform's prediction as text; empty: unknown.

        For example ``graph: measured models 62 %, graph: operators 38 %``.
        """
        shares = self.sources.get(platform, ())
        if len(shares) == 1:
            return shares[0].source
        return ", ".join(f"{share.source} {share.weight:.0%}" for share in shares)

    def to_json(self) -> str:
        """Return compact JSON text on one line; fields with their default value are left out."""
        text = _json().dump_json(self, exclude_defaults=True).decode()
        return f'{{"schema":"{FORECAST_SCHEMA}",{text[1:]}'

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
            return _json().validate_python(data)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DocumentError("forecast", f"is not one that Berth wrote: {error!r}") from None


@cache
def _json() -> TypeAdapter[Forecast]:
    return TypeAdapter(Forecast)
