"""The emulated part of a pilot: Berth's own valgrind tool, or several of valgrind's, bounded.

Berth's tool counts everything in one run. Where it cannot be built, valgrind's own stand in, one
after another: callgrind gives instruction mix, first and last level of cache, branches; cachegrind
the second level (or, where instructions cannot be classified, all of it), lackey the bytes of
loads and stores. Their counts can differ: runs are cut at different points, and some count a
forked process's inherited past again. The rule: the first tool with an instruction count leads;
another that saw over 1 % more or fewer instructions has its counts scaled by the ratio. Totals of
a cut run are never extrapolated.
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
"""Instruction counts of two tools within this fraction of each other are of the same run."""
RESERVE = 0.05
"""Share of the budget for the tools to write, and for us to read, what was counted."""
ROUGH = frozenset({"fp_ops"})
"""Lackey's guess is worth nothing beside callgrind's exact operations, whose sum is derived."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """The counters of all tools, each tool's report, and warnings."""

    counters: dict[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    executed: Executed
    interrupted: bool


def emulate(order: Order, *, tools: Sequence[str], budget_s: float, jobs: int = 1) -> Emulation:
    """Run ``order`` under each of ``tools``, best first; ``budget_s``: wall time of all.

    More than one of ``jobs`` at once is for programs that write no files.
    """
    with _scratch() as folder:
        collectors, reports = _usable(tools, folder)
        if not collectors:
            return Emulation({}, tuple(reports), (), NOTHING, False)
        rounds = -(-len(collectors) // max(1, jobs))
        limit = budget_s * (1 - RESERVE) / rounds
        orders = [c.prepare(replace(order, time_limit_s=limit)) for c in collectors]
        interrupted = False
        try:
            outcomes: dict[int, Outcome] = dict(enumerate(run_all(orders, jobs=jobs)))
            for index, collector in enumerate(collectors):
                left_s = limit - outcomes[index].wall_s
                if outcomes[index].exit_code and not outcomes[index].cut and left_s > 0:
                    other = collector.again(replace(orders[index], time_limit_s=left_s))
                    if other is not None:
                        [outcomes[index]] = run_all([other], jobs=1)
        except Interrupted as stop:
            outcomes, interrupted = stop.outcomes, True
        finished = [
            (collector, collector.finish(outcomes[index]))
            for index, collector in enumerate(collectors)
            if index in outcomes
        ]
        executed = NOTHING
        for index, (collector, readings) in enumerate(finished):
            if readings.sets and not executed.sets:
                executed = Executed(readings.sets, stopped=readings.stopped)
                usual_s = outcomes[index].wall_s
                if may_choose(readings.sets) and not (readings.stopped or interrupted):
                    plain = collector.plainly(replace(orders[index], time_limit_s=2 * usual_s + 2))
                    if plain is not None:
                        executed = replace(executed, plain=_seen(collector, plain))
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


def _seen(collector: Collector, order: Order) -> Sets | None:
    """Return the instruction sets of a run on a plain processor; None: it failed or was stopped."""
    try:
        [outcome] = run_all([order], jobs=1)
    except Interrupted:
        return None
    return collector.sets_seen(outcome)


def _gathered(finished: Sequence[tuple[Collector, Readings]]) -> list[str]:
    """Return the warnings, each once, with the tools that gave it."""
    tools: dict[str, list[str]] = {}
    for collector, readings in finished:
        texts = (*readings.warnings, *((readings.detail,) if readings.failed else ()))
        for text in dict.fromkeys(texts):
            tools.setdefault(text, []).append(collector.name)
    return [f"{', '.join(names)}: {text}" for text, names in tools.items()]


def merge(readings: Sequence[Readings]) -> dict[str, Measurement]:
    """Return one value a counter, the earliest tool's, scaled to the leader's instructions."""
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
    """Return the standard error of ``factor`` times the measurement."""
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
