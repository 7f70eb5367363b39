"""Evidence: a finished job as the predictor learns from it, and its conversion to a
``RunResidual`` of the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from berth.predictor.core.forecast import Forecast
from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.learning.cells import JOB_DEVIATION, Cell, Hardware, RunResidual, RunShape

WHOLE_SECONDS_DEVIATION_S = 6**-0.5
"""Standard deviation in seconds of a time whose start and end are cut to whole seconds."""
UNPREDICTED_LOG_WIDTH = math.log(2.0)
"""Half width in log of a program's first time on a platform for which nothing was predicted: that
of a prediction between platforms that nothing was learnt about."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One finished job of a workload, as plain data independent of the scheduler."""

    job: str
    """Job identifier, unique at the site."""
    user: str
    workload: str
    """Name of the workload."""
    digest: str
    """Digest of the workload's content: jobs of another digest are not used for this workload."""
    platform: str
    cores: int
    gpus: int
    size: float | None
    runtime_s: float
    ended_s: float
    """End of the job, Unix time in seconds."""
    censored: bool = False
    """Whether the time limit killed the job: it would have run longer than ``runtime_s``."""
    peak_memory_bytes: float | None = None
    epoch: int = 0
    """Epoch of the workload: increases with each detected change of the workload."""
    place_epoch: int = 0
    """Epoch of the platform: increases with each detected change of the platform."""
    nodes: int | None = None
    """Number of nodes that the job ran on; None: the number that the forecast's curves are for."""

    @property
    def units(self) -> int:
        """Return the number of GPUs of the job, or of cores where it had no GPU."""
        return self.gpus or self.cores


def with_place_of(forecast: Forecast, evidence: Evidence) -> Forecast:
    """Return the forecast with the platform where a job ran, if nothing was predicted there: the
    job's own time is the first guess. A job that was cut off is none."""
    if evidence.platform in forecast.curves or evidence.censored or evidence.runtime_s <= 0:
        return forecast
    time = around(evidence.runtime_s, UNPREDICTED_LOG_WIDTH)
    reference_s = forecast.reference_runtime_s
    guess = Prediction(
        workload=forecast.workload,
        platform=evidence.platform,
        cores=evidence.cores,
        gpus=evidence.gpus,
        basis=Basis.PRIOR,
        speedup=Interval(1.0, 1.0, 1.0) if reference_s is None else time.over(reference_s),
        runtime_s=time,
        memory=MemoryUse(),
        energy_j=None,
        bound=Bound.UNKNOWN,
        abstained="only jobs of other shapes ran there, and nothing else tells its time",
    )
    return replace(
        forecast, curves={**forecast.curves, evidence.platform: PredictionCurve((guess,))}
    )


def place_of(platform: str, forecast: Forecast) -> Hardware | None:
    """Return a platform with its kind; None where ``forecast`` has no prediction for it."""
    curve = forecast.curves.get(platform)
    if curve is None:
        return None
    kind = "gpu" if curve.points[0].gpus else "cpu"
    return Hardware(platform, kind)


def cell_of(
    forecast: Forecast, place: Hardware, units: int, size: float | None,
    *, nodes: int | None = None, epoch: int = 0, place_epoch: int = 0,
) -> Cell | None:  # fmt: skip
    """Return the platform, size and resources of a run as a ``Cell``; None where the forecast has
    no time for the run.

    ``units``: cores or GPUs in total; ``size``: None for the profiled size; ``nodes``: None for the
    nodes of the main run.
    """
    main = forecast.main_nodes
    ran_on = main if nodes is None or forecast.nodes is None else nodes
    interval = forecast.runtime_at(place.platform, units, size, ran_on)
    if interval is None or interval.mid <= 0:
        return None
    own = forecast.sizes.size
    if forecast.nodes is not None:
        size, units = forecast.nodes.size(size, ran_on), units * main // ran_on
    asked = size if size is not None else own
    point = forecast.prediction(place.platform, units * ran_on // main, ran_on)
    assert point is not None  # noqa: S101 - the platform has a time
    deviation = log_deviation(interval)
    own_deviation = min(point.ratio_log_width_of(interval) / NORMAL_90, deviation)
    log_size = math.log(asked) if asked else 0.0
    return Cell(
        place,
        RunShape("", log_size, math.log(max(units, 1)), math.log(ran_on / main)),
        deviation,
        epoch,
        place_epoch,
        math.sqrt(deviation**2 - own_deviation**2),
        JOB_DEVIATION if forecast.has_measured_time else 0.0,
        point.basis is Basis.MEASURED,
    )


def run_of(evidence: Evidence, forecast: Forecast) -> RunResidual | None:
    """Return a finished job with the log of its time over ``forecast``, which is made without
    learning.

    None where the forecast has no time for the job's platform, size and resources.
    """
    place = place_of(evidence.platform, forecast)
    if place is None:
        return None
    cell = cell_of(
        forecast, place, evidence.units, evidence.size,
        nodes=evidence.nodes, epoch=evidence.epoch, place_epoch=evidence.place_epoch,
    )  # fmt: skip
    interval = forecast.runtime_at(
        evidence.platform, evidence.units, evidence.size, evidence.nodes or forecast.main_nodes
    )
    if cell is None or interval is None:
        return None
    residual = math.log(evidence.runtime_s / interval.mid)
    clock = clock_deviation(evidence.runtime_s)
    return RunResidual(cell, residual, evidence.censored, evidence.job, clock)


def clock_deviation(runtime_s: float) -> float:
    """Return the standard deviation of log time that the resolution of the accounting causes.

    A time in whole seconds is the difference of two moments that were each cut to a whole second,
    so that its error has a triangular distribution from -1 s to 1 s. 0 for times with a fraction.
    """
    return WHOLE_SECONDS_DEVIATION_S / runtime_s if float(runtime_s).is_integer() else 0.0


def log_deviation(interval: Interval) -> float:
    """Return the standard deviation of log time that a 90 % interval implies for a normal
    distribution."""
    low = max(interval.low, interval.mid * 1e-6)
    return max(0.0, math.log(max(interval.high, low) / low) / 2 / NORMAL_90)
