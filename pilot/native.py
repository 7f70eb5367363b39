"""The native runs of a pilot: collectors watch the first run, repeats give the runtime."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from berth.pilot.collectors.base import Collector
from berth.pilot.host import cores
from berth.pilot.launch import Interrupted, Order, ProcessResult, run_one
from berth.pilot.plausible import contention, least_disturbed, noise_of, own_time_s
from berth.pilot.profile import CollectorReport, Measurement, Runtime
from berth.pilot.progress import Say, clocked
from berth.pilot.runs_on import is_rank
from berth.pilot.shepherd.proc import machine_runnable

LONG_S = 20.0
VERY_LONG_S = 60.0
"""Programs longer than ``LONG_S`` are run at most twice, longer than ``VERY_LONG_S`` once."""
LEAST_S = 1e-9
PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Environment in which the threads of a team sleep while they wait for each other: beside other
work, threads that spin until one without a processor is through took 15 times their time."""
AGREEING_S, AGREEING = 0.5, 0.02
"""Of programs of at least ``AGREEING_S``, two runs suffice whose times differ by at most 2 %."""


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


def repeats_for(first_s: float, wanted: int) -> int:
    """Return the number of native runs: ``wanted``, or fewer if the first took long.

    ``first_s`` is the wall time of the first run in seconds.
    """
    if first_s > VERY_LONG_S:
        return 1
    return min(wanted, 2) if first_s > LONG_S else wanted


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
    repeats: int,
    left_s: Callable[[], float],
    say: Say,
) -> Native:
    """Run a program once with the collectors attached, then repeat it without collectors.

    ``left_s`` returns the remaining seconds of the pilot's time limit.
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
    counters: dict[str, Measurement] = {}
    warnings: list[str] = []
    gpus_used = 0
    for collector in usable:
        readings = collector.finish(first)
        gpus_used = max(gpus_used, readings.gpus_used)
        status = "failed" if readings.failed else "used"
        reports.append(CollectorReport(name=collector.name, status=status, detail=readings.detail))
        warnings.extend(readings.warnings)
        for name, measurement in readings.counters.items():
            counters.setdefault(name, measurement)
    if not first.succeeded:
        return Native(
            first, None, counters, tuple(reports), tuple(warnings), interrupted, gpus_used
        )
    # The waits of one rank are not those of the whole parallel program.
    time_of = operator.attrgetter("wall_s") if is_rank(order.env) else own_time_s
    runs, times = [first], [time_of(first)]
    plain = replace(order, forward_bytes=0)
    wanted = repeats_for(first.wall_s, repeats)
    while len(times) < wanted and not _agree(times) and left_s() > 1.5 * first.wall_s:
        ended = len(times)
        try:
            with clocked(say, f"native run {ended + 1} of {wanted}", first.wall_s):
                outcome = run_one(_polite(replace(plain, time_limit_s=left_s())))
        except Interrupted:
            interrupted = True
            break
        if not outcome.succeeded:
            warnings.append(f"repeat {len(times) + 1} {outcome.describe()}, the first did not")
            break
        runs.append(outcome)
        times.append(time_of(outcome))
    runtime = runtime_of(times)
    if not is_rank(order.env):
        best = least_disturbed(runs)
        noise = noise_of(times, contention(best))
        middle_s = runtime.median_s if noise is None else max(own_time_s(best), LEAST_S)
        runtime = runtime.model_copy(update={"noise": noise, "median_s": middle_s})
    return Native(
        first,
        runtime,
        counters,
        tuple(reports),
        tuple(warnings),
        interrupted,
        gpus_used,
    )


def _polite(order: Order) -> Order:
    """Return the order with ``PASSIVE`` threads if all processors are busy."""
    return order if machine_runnable() <= cores() else replace(order, env={**PASSIVE, **order.env})


def _agree(times: Sequence[float]) -> bool:
    """Return whether the runs of a program that is not short took the same time."""
    if len(times) < 2 or min(times) < AGREEING_S:
        return False
    return max(times) <= (1 + AGREEING) * min(times)


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
