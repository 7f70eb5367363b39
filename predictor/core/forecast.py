"""The Forecast: everything predicted for one profile, frozen, ready for a look-up.

Made once by ``Predictor.forecast`` when a profile is added to the store or the bundle changes;
the daemon loads it from JSON and asks it at submit time. Plain dataclasses and the standard
library only: loading one must cost microseconds, not a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import DocumentError
from berth.predictor.core.prediction import Basis, Bound, Interval, Prediction, PredictionCurve
from berth.predictor.core.sizes import PowerLaw, SizeLaw

FORECAST_SCHEMA = "berth.forecast/1"


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions of one profile over platforms, core counts and sizes, with what it runs on."""

    profile: str
    profile_digest: str
    """``sha256:`` of the profile's content; a changed profile needs a new forecast."""
    bundle: str
    """Id of the bundle that made it."""
    targets: tuple[str, ...]
    """What the program runs on: ``cpu``, ``cuda``, ``hip``."""
    architecture: str
    instruction_sets: tuple[str, ...]
    threads: int
    ranks: int
    gpus: int
    container: str | None
    reference_platform: str
    reference_runtime_s: float | None
    sizes: SizeLaw
    curves: Mapping[str, PredictionCurve]
    """By platform name."""

    def prediction(self, platform: str, units: int) -> Prediction | None:
        """The grid point at or below ``units`` (cores, or GPUs); None: platform not forecast."""
        curve = self.curves.get(platform)
        return None if curve is None else curve.nearest(units)

    def runtime_at(self, platform: str, units: int, size: float | None = None) -> Interval | None:
        """Time with ``units`` cores (CPU platforms) or GPUs at ``size`` (None: as profiled)."""
        curve = self.curves.get(platform)
        if curve is None:
            return None
        return curve.runtime_at(units).times(self.sizes.runtime_factor(size))

    def memory_at(self, platform: str, size: float | None = None) -> Interval | None:
        """Peak memory (of the node, or of the GPU) at problem ``size`` (None: as profiled)."""
        curve = self.curves.get(platform)
        if curve is None:
            return None
        here = curve.points[0].memory_bytes
        ours, theirs = self.sizes.memory_bytes(None), self.sizes.memory_bytes(size)
        if size is None or ours is None or theirs is None:
            return here
        # What a platform adds (a GPU's context, say) does not grow with the problem.
        return here.moved(ours, theirs)

    def to_json(self) -> str:
        """Compact JSON text on one line."""
        data: dict[str, Any] = {
            "schema": FORECAST_SCHEMA,
            "profile": self.profile,
            "profile_digest": self.profile_digest,
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
            "sizes": {
                "size": self.sizes.size,
                "peak_memory_bytes": self.sizes.peak_memory_bytes,
                "measured": self.sizes.measured,
                "runtime": _law_out(self.sizes.runtime),
                "memory": _law_out(self.sizes.memory),
            },
            "curves": {name: _curve_out(curve) for name, curve in self.curves.items()},
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Forecast:
        """Read what ``to_json`` wrote. Raises DocumentError where it is anything else."""
        try:
            data = json.loads(text)
            if data["schema"] != FORECAST_SCHEMA:
                raise DocumentError(
                    "forecast", f"is {data['schema']!r}, not {FORECAST_SCHEMA!r}", key="schema"
                )
            sizes = data["sizes"]
            return cls(
                profile=data["profile"],
                profile_digest=data["profile_digest"],
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
                sizes=SizeLaw(
                    size=sizes["size"],
                    peak_memory_bytes=sizes["peak_memory_bytes"],
                    measured=tuple(sizes["measured"]),
                    runtime=_law_in(sizes["runtime"]),
                    memory=_law_in(sizes["memory"]),
                ),
                curves={
                    name: _curve_in(points, data["profile"], name)
                    for name, points in data["curves"].items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DocumentError("forecast", f"is not one that Berth wrote: {error!r}") from None


def _law_out(law: PowerLaw | None) -> list[float] | None:
    return None if law is None else [law.constant, law.factor, law.exponent, law.misfit]


def _law_in(data: Any) -> PowerLaw | None:
    return None if data is None else PowerLaw(*(float(v) for v in data))


def _interval_out(interval: Interval) -> list[float]:
    return [float(f"{v:.6g}") for v in (interval.low, interval.mid, interval.high)]


def _interval_in(data: Any) -> Interval:
    low, mid, high = data
    return Interval(low, mid, high)


def _curve_out(curve: PredictionCurve) -> list[list[Any]]:
    return [
        [
            p.cores,
            p.gpus,
            p.basis.value,
            p.bound.value,
            _interval_out(p.speedup),
            _interval_out(p.runtime_s),
            _interval_out(p.memory_bytes),
            None if p.energy_j is None else _interval_out(p.energy_j),
            p.abstained,
        ]
        for p in curve.points
    ]


def _curve_in(points: Any, profile: str, platform: str) -> PredictionCurve:
    if not points:
        raise ValueError(f"no points for {platform}")
    return PredictionCurve(tuple(_point_in(point, profile, platform) for point in points))


def _point_in(point: Any, profile: str, platform: str) -> Prediction:
    cores, gpus, basis, bound, speedup, runtime, memory, energy, abstained = point
    return Prediction(
        profile=profile,
        platform=platform,
        cores=cores,
        gpus=gpus,
        basis=Basis(basis),
        speedup=_interval_in(speedup),
        runtime_s=_interval_in(runtime),
        memory_bytes=_interval_in(memory),
        energy_j=None if energy is None else _interval_in(energy),
        bound=Bound(bound),
        abstained=abstained,
    )
