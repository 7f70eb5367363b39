"""The emulated run of a pilot, with a limit, under Berth's valgrind tool."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings
from berth.pilot.collectors.registry import collector_of
from berth.pilot.launch import Interrupted, Order, ProcessResult, Watch, run_one
from berth.pilot.needs import NOTHING, Executed, Sets, may_choose
from berth.pilot.profile import CollectorReport, Measurement

RESERVE = 0.05
"""Share of the limit that is reserved for writing and reading the results."""
PLAIN_SHARE, PLAIN_LEAST_S = 0.25, 4.0
"""Limit of the run that shows the needed instruction sets: this share of the limit of the counting
runs, at least 4 s of processor time."""
IDLE_FACTOR = 10.0
"""Wall time of a run without a time limit is at most this many times its limit of processor time,
so that a program that hangs ends."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """The results of the emulated runs: merged counters, a report per tool, warnings."""

    counters: dict[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    executed: Executed
    interrupted: bool


def emulate(
    order: Order,
    *,
    tools: Sequence[str],
    budget_s: float,
    once: bool = False,
    early: Callable[[Emulation], bool] | None = None,
) -> Emulation:
    """Run a program under each of the emulation tools and return the merged counters.

    ``tools``: names of collectors, preferred first. ``budget_s``: processor time of all runs
    together, in seconds; their wall time is limited by the order's ``time_limit_s``. ``once``: the
    run is not repeated in another way and not cut at the budget, because the other ranks of the
    program wait for this one: it goes on without counting. ``early`` is then called with the
    results, again and again until the program ends; if it returns True, the program is ended.
    """
    order = replace(order, goes_on=once)
    finished: list[tuple[Collector, Readings]] = []
    executed, interrupted = NOTHING, False
    with _scratch() as folder:
        order = replace(order, kept=(*order.kept, str(folder)))
        collectors, reports = _usable(tools, folder)
        limit = budget_s * (1 - RESERVE) / max(1, len(collectors))
        for collector in collectors:
            watch = None
            if early is not None:
                order = replace(order, stop_file=str(folder / "ended"))
                watch = _early(collector, folder / "ended", early)
            prepared = collector.prepare(_limited(order, limit))
            outcome, interrupted = _run(prepared, watch)
            outcome = collector.counted(outcome) or outcome
            left_s = limit - outcome.cpu_s
            if outcome.exit_code and not (outcome.cut or once or interrupted) and left_s > 0:
                other = collector.again(_limited(prepared, left_s))
                if other is not None:
                    outcome, interrupted = _run(other)
            readings = _of_whole_program(_finished(collector, outcome), outcome)
            finished.append((collector, readings))
            if readings.sets and not executed.sets:
                executed = Executed(readings.sets, stopped=readings.stopped)
                if may_choose(readings.sets) and not (readings.stopped or interrupted or once):
                    plain_s = max(PLAIN_LEAST_S, PLAIN_SHARE * budget_s)
                    seen = _seen(collector, _limited(prepared, plain_s))
                    # A file that this run did not reach needs what it executed before.
                    plain = None if seen is None else {**readings.sets, **seen}
                    executed = replace(executed, plain=plain)
            if interrupted:
                break
    return _emulation(finished, reports, executed, interrupted=interrupted)


def _finished(collector: Collector, outcome: ProcessResult) -> Readings:
    """Return what a run counted; failed readings where its files do not fit on the disk."""
    try:
        return collector.finish(outcome)
    except OSError as error:
        why = f"{error.strerror}: counting needs a folder with more room in the variable TMPDIR"
        return Readings(detail=f"{tempfile.gettempdir()}: {why}", failed=True)


def _run(order: Order, watch: Watch | None = None) -> tuple[ProcessResult, bool]:
    """Return a run's outcome, and whether Ctrl-C ended it."""
    try:
        return run_one(order, watch=watch), False
    except Interrupted as stop:
        return stop.outcome, True


def _early(collector: Collector, ended: Path, early: Callable[[Emulation], bool]) -> Watch:
    """Return the function that calls ``early`` once the collector has counted before the end."""
    results: list[Emulation] = []

    def watch(_shepherd_pid: int) -> None:
        if not results and (outcome := collector.counted(ProcessResult())) is not None:
            results.append(_emulation([(collector, collector.finish(outcome))]))
        if results and not ended.exists() and early(results[0]):
            ended.touch()

    return watch


def _emulation(
    finished: Sequence[tuple[Collector, Readings]],
    reports: Sequence[CollectorReport] = (),
    executed: Executed = NOTHING,
    *,
    interrupted: bool = False,
) -> Emulation:
    used = [
        CollectorReport(
            name=collector.name,
            status="failed" if readings.failed else "used",
            detail=readings.detail,
        )
        for collector, readings in finished
    ]
    return Emulation(
        counters=merge([readings for _, readings in finished]),
        reports=(*reports, *used),
        warnings=tuple(_gathered(finished)),
        executed=executed,
        interrupted=interrupted,
    )


def _limited(order: Order, cpu_s: float) -> Order:
    """Return the launch order with a limit of processor time in seconds, and of wall time."""
    return replace(order, cpu_limit_s=cpu_s, time_limit_s=order.time_limit_s or IDLE_FACTOR * cpu_s)


def _of_whole_program(readings: Readings, outcome: ProcessResult) -> Readings:
    """Return the readings of an emulated run, without counters where the program failed in it."""
    if outcome.succeeded or outcome.cut or readings.failed:
        return readings
    why = f"counts are refused: under emulation the program {outcome.describe()}, natively with 0"
    return replace(readings, counters={}, warnings=(), detail=why, failed=True)


def _seen(collector: Collector, order: Order) -> Sets | None:
    """Return the instruction sets that a program executes on an emulated x86-64-v2 processor.

    The keys are executables and libraries. None where the run failed or was interrupted, or the
    collector does not support this.
    """
    plain = collector.plainly(order)
    if plain is None:
        return None
    outcome, interrupted = _run(plain)
    return None if interrupted else collector.sets_seen(outcome)


def _gathered(finished: Sequence[tuple[Collector, Readings]]) -> list[str]:
    """Return each different warning once, with the names of the tools that reported it."""
    tools: dict[str, list[str]] = {}
    for collector, readings in finished:
        texts = (*readings.warnings, *((readings.detail,) if readings.failed else ()))
        for text in dict.fromkeys(texts):
            tools.setdefault(text, []).append(collector.name)
    return [f"{', '.join(names)}: {text}" for text, names in tools.items()]


def merge(readings: Sequence[Readings]) -> dict[str, Measurement]:
    """Return one value per counter, from the first tool that counted it."""
    result: dict[str, Measurement] = {}
    for reading in readings:
        for name, measurement in reading.counters.items():
            result.setdefault(name, measurement)
    return result


def _usable(tools: Sequence[str], folder: Path) -> tuple[list[Collector], list[CollectorReport]]:
    usable: list[Collector] = []
    reports = []
    for collector in (collector_of(tool, folder) for tool in tools):
        if (absent := collector.probe()) is not None:
            reports.append(CollectorReport(name=collector.name, status="absent", detail=absent))
        else:
            usable.append(collector)
    return usable, reports


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="berth-pilot-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
