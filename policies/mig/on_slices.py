"""Predictions for a workload on the slices of one GPU model, in the form that ``recommend`` takes.

There are two sources: a Forecast over the platforms of the slices, for every kind of workload, and
the slice predictor, which adds details for a workload that was measured on the whole GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.core.forecast import Forecast, WorkUnit
from berth.predictor.core.prediction import Basis, Bound, Interval, MemoryUse, Prediction
from berth.predictor.core.workload import Workload
from berth.predictor.families.slices.predictor import (
    SlicePrediction,
    SlicePredictor,
    memory_of,
    predictions,
    profiles_of,
)
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.geometry import Geometry

LEAST_LOG_WIDTH = 0.05
"""Least half-width, as a natural logarithm, of a slowdown's interval when the errors of the two
times are correlated."""


@dataclass(frozen=True, slots=True)
class OnSlice:
    """Prediction for a workload on one slice, per unit of work."""

    slowdown: Interval
    """Time on the slice / time on the whole GPU, with its 90 % interval."""
    time_s: Interval
    """Seconds per unit of work, with the 90 % interval."""
    memory: MemoryUse
    energy_j: Interval | None
    """Joules per unit of work; None: unknown."""
    basis: Basis
    bound: Bound
    method: str
    abstained: str | None
    launch_share: float | None = None
    """Part of the time on the slice, bound by launches, that a larger slice would not shorten."""


@dataclass(frozen=True, slots=True)
class OnSlices:
    """Predictions for one workload on the profiles of one GPU model, without media variants."""

    workload: str
    unit: str
    """The unit of work of the predicted times: ``batch``, ``request``, ``token`` or ``job``."""
    items: float
    """Items in a unit of work, such as the samples in a batch, summed over all processes."""
    units: float | None
    """Units of work in a whole job; None: unknown."""
    on: Mapping[str, OnSlice]
    """The predictions, by profile name."""
    is_latency: bool = True
    """False: the time per unit is 1 / throughput at full load, not the duration of one unit."""


def of_forecast(
    forecast: Forecast, workload: Workload, geometry: Geometry, known: Mapping[str, Platform]
) -> OnSlices:
    """Return a forecast's predictions for the slices of this GPU model; ``known``: all platforms
    by name.

    Raises UsageError where the forecast covers none of its slices, or the workload needs several
    GPUs or another kind of device.
    """
    if forecast.gpus > 1:
        raise UsageError(
            f"{workload.name} runs on {forecast.gpus} GPUs; a slice is one",
            hint="describe it with one GPU, or leave it to whole GPUs",
        )
    points, whole = _points(forecast, geometry, known)
    if not points:
        raise UsageError(f"nothing is predicted of {workload.name} on slices of {geometry.gpu}")
    devices = {t.value for point in points.values() for t in known[point.platform].targets}
    if devices.isdisjoint(forecast.targets):
        raise UsageError(
            f"{workload.name} runs on {' or '.join(forecast.targets)}, slices of {geometry.gpu} "
            f"on {' or '.join(sorted(devices))}",
            hint="if it has code for GPUs, pilot it on one: berth pilot run",
        )
    unit, items = _unit(workload)
    times = 1.0
    if forecast.whole_job and workload.amount.unit is not WorkUnit.JOB:
        times = workload.amount.steps or 1.0
    whole = whole or points[max(points, key=lambda name: geometry.profile(name).compute_slices)]
    return OnSlices(
        workload.name,
        unit,
        items,
        workload.amount.steps,
        {
            name: _on_slice(point, whole, 1 / times, forecast.source_of(point.platform))
            for name, point in points.items()
        },
        is_latency=workload.amount.unit not in (WorkUnit.REQUEST, WorkUnit.TOKEN),
    )


def _points(
    forecast: Forecast, geometry: Geometry, known: Mapping[str, Platform]
) -> tuple[dict[str, Prediction], Prediction | None]:
    """Return the predictions by profile name, and the prediction for the whole GPU without MIG.

    The latter is None where the forecast does not cover the whole GPU.
    """
    points: dict[str, Prediction] = {}
    whole = None
    covered = {name: known[name] for name in sorted(forecast.curves) if name in known}
    for name, profile in profiles_of(geometry, covered).items():
        point = forecast.curves[name].nearest(1)
        if known[name].kind is PlatformKind.MIG:
            points.setdefault(profile.name, point)
        else:
            whole = whole or point
    return points, whole


def _unit(workload: Workload) -> tuple[str, float]:
    unit = workload.amount.unit
    if unit in (WorkUnit.STEP, WorkUnit.EPOCH):
        return "batch", float(getattr(workload.document, "batch", 1))
    return unit.value, 1.0


def _on_slice(point: Prediction, whole: Prediction, factor: float, source: str) -> OnSlice:
    time = point.runtime_s
    # The error of the whole GPU's time is common to both times and cancels in their ratio.
    base, ratio = whole.runtime_s, time.mid / whole.runtime_s.mid
    down = _own(math.log(time.mid / time.low), math.log(base.mid / base.low))
    up = _own(math.log(time.high / time.mid), math.log(base.high / base.mid))
    return OnSlice(
        slowdown=Interval(ratio * math.exp(-down), ratio, ratio * math.exp(up)),
        time_s=time.scaled(factor),
        memory=point.memory,
        energy_j=None if point.energy_j is None else point.energy_j.scaled(factor),
        basis=point.basis,
        bound=point.bound,
        method=source,
        abstained=point.abstained,
    )


def _own(width: float, shared: float) -> float:
    return math.sqrt(max(width**2 - shared**2, LEAST_LOG_WIDTH**2))


def of_slice_workload(
    workload: SliceWorkload, geometry: Geometry, predictor: SlicePredictor
) -> OnSlices:
    """Return the slice predictor's predictions: with 95 % intervals, launch shares, energy from
    power.

    Raises UsageError where the workload was measured on another GPU model or has no prediction.
    """
    by_profile = predictions(workload, geometry, predictor)
    whole_s = next(iter(by_profile.values())).whole_s
    memory = memory_of(workload, geometry)
    return OnSlices(
        workload.name,
        "job" if workload.runtime_s == whole_s else "batch",
        workload.target_batch * workload.processes,
        None if workload.runtime_s is None else workload.runtime_s / whole_s,
        {name: _of_prediction(workload, point, memory) for name, point in by_profile.items()},
    )


def _of_prediction(
    workload: SliceWorkload, prediction: SlicePrediction, memory: MemoryUse
) -> OnSlice:
    return OnSlice(
        slowdown=prediction.slowdown,
        time_s=prediction.step_s,
        memory=memory,
        energy_j=_energy(workload, prediction),
        basis=prediction.basis,
        bound=prediction.bound,
        method=prediction.method,
        abstained=prediction.abstained,
        launch_share=prediction.launch_share,
    )


def _energy(workload: SliceWorkload, prediction: SlicePrediction) -> Interval | None:
    """Return joules per batch: the whole GPU's dynamic energy plus idle power for the slice's part.

    The idle power is multiplied by the slice's part of the GPU and the predicted time. None where
    power is unknown. This is an assumption: no data set that Berth uses has measured power of
    slices.
    """
    point, idle = workload.target, workload.idle_power_w
    if point is None or point.power_w is None or idle is None:
        return None
    switching = max(point.power_w - idle, 0.0) * point.seconds
    idle_j = prediction.step_s.scaled(idle * max(prediction.share.compute, prediction.share.memory))
    return Interval(switching + idle_j.low, switching + idle_j.mid, switching + idle_j.high)
