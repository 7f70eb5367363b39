"""The emulated runs of a pilot, with a limit: Berth's valgrind tool, or valgrind's own tools.

Berth's tool counts everything in one run. If it cannot be built, valgrind's own tools are run one
after another:

- callgrind: instruction mix, L1 and last-level cache, branches;
- cachegrind: L2 cache (all caches and branches where instructions cannot be classified);
- lackey: bytes of loads and stores.

Their counts can differ, because runs are cut at different points and some tools count a forked
process's history twice. The first tool with an instruction count is the reference. Another tool
whose instruction count differs by over 1 % has its counts scaled by the ratio. Totals of a run that
was cut are never extrapolated.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings
from berth.pilot.collectors.registry import collectors_of
from berth.pilot.launch import Interrupted, Order, Outcome, run_all
from berth.pilot.needs import NOTHING, Executed, Sets, may_choose
from berth.pilot.profile import CollectorReport, Measurement

SAME_RUN = 0.01
"""Largest relative difference of instruction counts at which a tool's counts are not scaled."""
RESERVE = 0.05
"""Share of the limit that is reserved for writing and reading the results."""
PLAIN_SHARE, PLAIN_LEAST_S = 0.25, 4.0
"""Limit of the run that shows the needed instruction sets: this share of the limit of the counting
runs, at least 4 s of processor time."""
IDLE_FACTOR = 10.0
"""Wall time of a run without a time limit is at most this many times its limit of processor time,
so that a program that hangs ends."""
ROUGH = frozenset({"fp_ops"})
"""Counters that lackey only estimates; dropped if callgrind counted the operations exactly."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """The results of the emulated runs: merged counters, a report per tool, warnings."""

    counters: dict[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    executed: Executed
    interrupted: bool


def emulate(
    order: Order, *, tools: Sequence[str], budget_s: float, jobs: int = 1, once: bool = False
) -> Emulation:
    """Run a program under each of the emulation tools and return the merged counters.

    ``tools``: names of collectors, preferred first. ``budget_s``: processor time of all runs
    together, in seconds; their wall time is limited by the order's ``time_limit_s``. ``jobs``: runs
    at the same time; above 1 only for programs that write no files. ``once``: no run is repeated in
    another way, because the other ranks of the program wait for this one.
    """
    with _scratch() as folder:
        collectors, reports = _usable(tools, folder)
        if not collectors:
            return Emulation({}, tuple(reports), (), NOTHING, False)
        limit = budget_s * (1 - RESERVE) / len(collectors)
        orders = [c.prepare(_limited(order, limit)) for c in collectors]
        interrupted = False
        try:
            outcomes: dict[int, Outcome] = dict(enumerate(run_all(orders, jobs=jobs)))
            for index, collector in enumerate(collectors):
                left_s = limit - outcomes[index].cpu_s
                failed = outcomes[index].exit_code and not outcomes[index].cut
                if failed and left_s > 0 and not once:
                    other = collector.again(_limited(orders[index], left_s))
                    if other is not None:
                        [outcomes[index]] = run_all([other], jobs=1)
        except Interrupted as stop:
            outcomes, interrupted = stop.outcomes, True
        finished = [
            (collector, _of_whole_program(collector.finish(outcomes[index]), outcomes[index]))
            for index, collector in enumerate(collectors)
            if index in outcomes
        ]
        executed = NOTHING
        for index, (collector, readings) in enumerate(finished):
            if readings.sets and not executed.sets:
                executed = Executed(readings.sets, stopped=readings.stopped)
                limit = max(PLAIN_LEAST_S, PLAIN_SHARE * budget_s)
                if may_choose(readings.sets) and not (readings.stopped or interrupted or once):
                    plain = collector.plainly(_limited(orders[index], limit))
                    if plain is not None:
                        seen = _seen(collector, plain)
                        # A file that this run did not reach needs what it executed before.
                        plain_sets = None if seen is None else {**readings.sets, **seen}
                        executed = replace(executed, plain=plain_sets)
    reports += [
        CollectorReport(
            name=collector.name,
            status="failed" if readings.failed else "used",
            detail=readings.detail,
        )
        for collector, readings in finished
    ]
    warnings = _gathered(finished)
    counters = merge([readings for _, readings in finished])
    return Emulation(counters, tuple(reports), tuple(warnings), executed, interrupted)


def _limited(order: Order, cpu_s: float) -> Order:
    """Return the launch order with a limit of processor time in seconds, and of wall time."""
    return replace(order, cpu_limit_s=cpu_s, time_limit_s=order.time_limit_s or IDLE_FACTOR * cpu_s)


def _of_whole_program(readings: Readings, outcome: Outcome) -> Readings:
    """Return the readings of an emulated run, without counters where the program failed in it."""
    if outcome.succeeded or outcome.cut or readings.failed:
        return readings
    why = f"counts are refused: under emulation the program {outcome.describe()}, natively with 0"
    return replace(readings, counters={}, warnings=(), detail=why, failed=True)


def _seen(collector: Collector, order: Order) -> Sets | None:
    """Return the instruction sets that a program executes on an emulated x86-64-v2 processor.

    The keys are executables and libraries. None where the run failed or was interrupted.
    """
    try:
        [outcome] = run_all([order], jobs=1)
    except Interrupted:
        return None
    return collector.sets_seen(outcome)


def _gathered(finished: Sequence[tuple[Collector, Readings]]) -> list[str]:
    """Return each different warning once, with the names of the tools that reported it."""
    tools: dict[str, list[str]] = {}
    for collector, readings in finished:
        texts = (*readings.warnings, *((readings.detail,) if readings.failed else ()))
        for text in dict.fromkeys(texts):
            tools.setdefault(text, []).append(collector.name)
    return [f"{', '.join(names)}: {text}" for text, names in tools.items()]


def merge(readings: Sequence[Readings]) -> dict[str, Measurement]:
    """Return one value per counter, from the first tool that counted it.

    Values are scaled to the instruction count of the first tool that counted instructions.
    """
    leader: float | None = None
    result: dict[str, Measurement] = {}
    for reading in readings:
        counted = reading.counters.get("instructions")
        own = reading.seen or (counted.value if counted is not None else None)
        ratio = 1.0
        if own:
            leader = leader or own
            if abs(own - leader) > SAME_RUN * leader:
                ratio = leader / own
        for name, measurement in reading.counters.items():
            if name not in result and not (name in ROUGH and "fp64_ops" in result):
                result[name] = _scaled(measurement, ratio)
    return result


def scaled_error(measurement: Measurement, factor: float) -> float | None:
    """Return the standard error of a measurement times ``factor``; None for exact measurements."""
    error = measurement.standard_error
    return None if error is None else error * factor


def _scaled(measurement: Measurement, ratio: float) -> Measurement:
    if ratio == 1.0 or measurement.value is None:
        return measurement
    note = f"scaled by {ratio:.4g} to the instructions that the leading tool counted"
    return measurement.model_copy(
        update={
            "value": measurement.value * ratio,
            "standard_error": scaled_error(measurement, ratio),
            "note": f"{measurement.note}; {note}" if measurement.note else note,
        }
    )


def _usable(tools: Sequence[str], folder: Path) -> tuple[list[Collector], list[CollectorReport]]:
    usable: list[Collector] = []
    reports = []
    for collector in (c for tool in tools for c in collectors_of(tool, folder)):
        covering = [c.name for c in usable if c.name in collector.covered_by]
        if covering:
            why = f"{covering[0]} counts the same in its run"
            reports.append(CollectorReport(name=collector.name, status="skipped", detail=why))
        elif (absent := collector.probe()) is not None:
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
