"""The native runs of a pilot: collectors watch the first run; a second one tells the spread."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from berth.pilot.collectors.base import Collector
from berth.pilot.collectors.proc import PeakMemory, peak_memory
from berth.pilot.host import cores
from berth.pilot.launch import Interrupted, Order, ProcessResult, run_one
from berth.pilot.plausible import (
    contention,
    least_disturbed,
    noise_of,
    other_work,
    own_time_s,
)
from berth.pilot.profile import CollectorReport, Measurement, Runtime
from berth.pilot.progress import Say, clocked
from berth.pilot.runs_on import is_rank
from berth.pilot.shepherd.proc import machine_runnable

BRIEF_S, SHORT_S = 0.5, 10.0
"""Programs between these times are run twice by default, to know the spread. Of briefer ones, the
second run with its own start would cost more than it tells; of longer ones it costs too much."""
LEAST_S = 1e-9
PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Environment in which the threads of a team sleep while they wait for each other: beside other
work, threads that spin until one without a processor is through took 15 times their time."""


@dataclass(frozen=True, slots=True)
class Native:
    """Results of a pilot's native runs; ``first`` is the run that the collectors watched."""

    first: ProcessResult
    runtime: Runtime | None
    counters: dict[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    interrupted: bool = False
    gpus_used: int = 0
    memory: PeakMemory | None = None


def repeats_for(first_s: float, wanted: int | None) -> int:
    """Return the number of native runs: ``wanted``, or by the time of the first in seconds, without
    its waits for other work."""
    return wanted or (2 if BRIEF_S <= first_s < SHORT_S else 1)


def runtime_of(times_s: Sequence[float]) -> Runtime:
    """Return the median and spread of times in seconds.

    The spread is the interquartile range; for two runs their difference, for one run 0.
    """
    times = tuple(max(time, LEAST_S) for time in times_s)
    ordered = sorted(times)
    spread = 0.0
    if len(ordered) == 2:
        spread = ordered[1] - ordered[0]
    elif len(ordered) > 2:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        spread = high - low
    return Runtime(median_s=statistics.median(ordered), spread_s=spread, repeats_s=times)


def run_native(
    order: Order,
    collectors: Sequence[Collector],
    *,
    repeats: int | None,
    left_s: Callable[[], float],
    say: Say,
) -> Native:
    """Run a program natively ``repeats`` times (None: by its length), the first run with
    collectors.

    ``left_s`` returns the seconds left of the pilot's time limit: no further run is begun that
    would not fit. Raises UsageError where the program cannot be started.
    """
    usable, reports = _probe(collectors)
    say("native run 1")
    prepared = replace(order, time_limit_s=left_s())
    for collector in usable:
        prepared = collector.prepare(prepared)
    interrupted = False
    try:
        first = run_one(_polite(prepared), watch=_watch_all(usable))
    except Interrupted as stop:
        first, interrupted = stop.outcome, True
    native = replace(_collected(first, usable, reports), interrupted=interrupted)
    if not first.succeeded:
        return native
    # The waits of one rank are not those of the whole parallel program.
    time_of = operator.attrgetter("wall_s") if is_rank(order.env) else own_time_s
    runs, warnings = [first], list(native.warnings)
    plain = replace(order, forward_bytes=0)
    wanted = repeats_for(own_time_s(first), repeats)
    while len(runs) < wanted and left_s() > 1.5 * first.wall_s:
        try:
            with clocked(say, f"native run {len(runs) + 1} of {wanted}", first.wall_s):
                outcome = run_one(_polite(replace(plain, time_limit_s=left_s())))
        except Interrupted:
            interrupted = True
            break
        if not outcome.succeeded:
            warnings.append(f"run {len(runs) + 1} {outcome.describe()}, the first did not")
            break
        if (why := other_work(first, outcome)) is not None:
            warnings.append(f"run {len(runs) + 1} {why}: the time is that of the first run")
            break
        runs.append(outcome)
    times = [time_of(run) for run in runs]
    runtime = runtime_of(times)
    if not is_rank(order.env):
        best = least_disturbed(runs)
        noise = noise_of(times, contention(best))
        middle_s = runtime.median_s if noise is None else max(own_time_s(best), LEAST_S)
        runtime = runtime.model_copy(update={"noise": noise, "median_s": middle_s})
    return replace(native, runtime=runtime, warnings=tuple(warnings), interrupted=interrupted)


def _collected(
    first: ProcessResult, collectors: Sequence[Collector], reports: Sequence[CollectorReport]
) -> Native:
    """Return what the collectors counted in the first run."""
    counters: dict[str, Measurement] = {}
    every, warnings = list(reports), list[str]()
    gpus_used, group = 0, None
    for collector in collectors:
        readings = collector.finish(first)
        gpus_used = max(gpus_used, readings.gpus_used)
        group = group or readings.memory
        status = "failed" if readings.failed else "used"
        every.append(CollectorReport(name=collector.name, status=status, detail=readings.detail))
        warnings.extend(readings.warnings)
        for name, measurement in readings.counters.items():
            counters.setdefault(name, measurement)
    return Native(
        first,
        None,
        counters,
        tuple(every),
        tuple(warnings),
        gpus_used=gpus_used,
        memory=peak_memory(first, group),
    )


def _polite(order: Order) -> Order:
    """Return the order with ``PASSIVE`` threads if all processors are busy."""
    return order if machine_runnable() <= cores() else replace(order, env={**PASSIVE, **order.env})


def _probe(collectors: Sequence[Collector]) -> tuple[list[Collector], list[CollectorReport]]:
    usable, reports = [], []
    for collector in collectors:
        why = collector.probe()
        if why is None:
            usable.append(collector)
        else:
            reports.append(CollectorReport(name=collector.name, status="absent", detail=why))
    return usable, reports


def _watch_all(collectors: Sequence[Collector]) -> Callable[[int], None]:
    def watch(shepherd_pid: int) -> None:
        for collector in collectors:
            collector.watch(shepherd_pid)

    return watch
