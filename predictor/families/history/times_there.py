"""The times and memory of a program on the platform where its past jobs ran."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from berth.pilot.platform import Platform
from berth.predictor.core.family import Question
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.families.history.workload import HistoryWorkload, PastRun, PredictedRun

_T_95 = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
"""95 % quantiles of Student's t for 1 to 10 degrees of freedom."""
_T_MANY = 1.7
"""95 % quantile of Student's t for more degrees of freedom."""
SINGLE_RUN_LOG_WIDTH = math.log(3.0)
"""Log half width of the interval after one run: the next job may have another input."""
LEAST_LOG_WIDTH = 0.1
"""Least log half width of the interval after several runs."""
FAILED_ON_SLICE = "its latest run on this slice failed, perhaps for lack of GPU memory"
UNTRUSTED = "times of such jobs vary more than those of nearly all others"
MEMORY_MARGIN = 1.25
"""Ratio of the upper end of predicted memory to the largest peak recorded."""


def curve_of_runs(question: Question, platform: Platform, ran_on: str) -> PredictionCurve | None:
    """Return the curve from the past jobs on the platform ``ran_on``, with memory as it counts on
    ``platform``; None: nothing is known of the program there.

    Numbers of cores or GPUs without a prediction are left out where there is a prediction.
    """
    document = question.document(HistoryWorkload)
    predicted = {
        _units(run, platform): run for run in document.predicted or () if run.platform == ran_on
    }
    by_units: dict[int, list[PastRun]] = {}
    for run in document.runs:
        if run.platform == ran_on:
            by_units.setdefault(_units(run, platform), []).append(run)
    timed = {units: runs for units, runs in by_units.items() if _times(platform, runs)}
    if not by_units:
        by_units = {units: [] for units in predicted}
    elif predicted:
        by_units = {units: by_units[units] for units in by_units if units in predicted} or timed
    else:
        by_units = timed
    if not by_units:
        return None
    return PredictionCurve(
        tuple(
            _point(question, platform, units, by_units[units], predicted.get(units))
            for units in sorted(by_units)
        )
    )


def _units(run: PastRun | PredictedRun, platform: Platform) -> int:
    return max(run.gpus, 1) if platform.is_gpu else run.cores


def _point(
    question: Question,
    platform: Platform,
    units: int,
    runs: Sequence[PastRun],
    predicted: PredictedRun | None,
) -> Prediction:
    return Prediction(
        workload=question.workload.name,
        platform=platform.name,
        cores=1 if platform.is_gpu else units,
        gpus=units if platform.is_gpu else 0,
        basis=Basis.MEASURED,
        speedup=Interval(1.0, 1.0, 1.0),
        runtime_s=(
            next_run(_times(platform, runs))
            if predicted is None
            else Interval(predicted.low_s, predicted.mid_s, predicted.high_s)
        ),
        memory=_memory(question, platform, units, runs),
        energy_j=None,
        bound=Bound.UNKNOWN,
        abstained=_why_not(platform, runs, predicted),
    )


def _times(platform: Platform, runs: Sequence[PastRun]) -> list[float]:
    """Return the run times of runs that ended well, in seconds; on a MIG slice those of failed runs
    too, because a program that fails there is not sent there again."""
    is_slice = platform.parent is not None
    return [run.runtime_s for run in runs if run.ended_well or is_slice]


def _why_not(
    platform: Platform, runs: Sequence[PastRun], predicted: PredictedRun | None
) -> str | None:
    """Return why the prediction must not be acted on; None: no reason.

    A program that failed on a MIG slice, perhaps for lack of GPU memory, goes back to larger ones.
    """
    if platform.parent is not None and runs and not runs[-1].ended_well:
        return FAILED_ON_SLICE
    return None if predicted is None or predicted.trusted else UNTRUSTED


def _memory(
    question: Question, platform: Platform, units: int, runs: Sequence[PastRun]
) -> MemoryUse:
    """Return the predicted memory of the next job from the runs on the platform.

    ``units``: cores or GPUs of each run.
    """
    if not runs:
        return MemoryUse()
    host = _need([run.peak_host_bytes for run in runs])
    granted = max(run.granted_host_bytes or math.inf for run in runs)
    if host is not None and granted < host.high and all(run.ended_well for run in runs):
        # Every run succeeded within the granted memory, so it suffices for the next run.
        host = Interval(host.low, host.mid, max(host.high / MEMORY_MARGIN, granted))
    if not platform.is_gpu:
        return MemoryUse(host_bytes=host)
    gpu = _need([run.peak_gpu_bytes for run in runs])
    return MemoryUse(host, gpu, _held_in(question, platform, units))


def _need(peaks: Sequence[float | None]) -> Interval | None:
    known = [peak for peak in peaks if peak is not None]
    if not known:
        return None
    return Interval(min(known), statistics.median(known), max(known) * MEMORY_MARGIN)


def _held_in(question: Question, platform: Platform, units: int) -> float | None:
    """Return the memory of the smallest GPU model on which the program succeeded with at most
    ``units`` GPUs.

    None where there is no such run.
    """
    known = {**question.known, platform.name: platform}
    ran_on = (
        known[run.platform]
        for run in question.document(HistoryWorkload).runs
        if run.ended_well and 0 < run.gpus <= units and run.platform in known
    )
    return min(
        (
            platform_it_ran_on.memory_bytes
            for platform_it_ran_on in ran_on
            if platform_it_ran_on.is_gpu
        ),
        default=None,
    )


def next_run(seconds: Sequence[float]) -> Interval:
    """Return the median and 90 % prediction interval of the next run's time in seconds, from the
    times of past runs.

    At least one past time is needed.
    """
    mid = statistics.median(seconds)
    if len(seconds) == 1:
        return around(mid, SINGLE_RUN_LOG_WIDTH)
    logs = [math.log(runtime_s) for runtime_s in seconds]
    degrees = len(logs) - 1
    quantile = _T_95[degrees - 1] if degrees <= len(_T_95) else _T_MANY
    width = quantile * statistics.stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return around(mid, max(width, LEAST_LOG_WIDTH))
