"""The emulated run of a pilot, with a limit, under Berth's valgrind tool."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings
from berth.pilot.collectors.registry import collector_of
from berth.pilot.launch import Interrupted, Order, ProcessResult, run_one
from berth.pilot.profile import CollectorReport, Measurement

RESERVE = 0.05
"""Share of the limit that is reserved for writing and reading the results."""
IDLE_FACTOR = 10.0
"""Wall time of a run without a time limit is at most this many times its limit of processor time,
so that a program that hangs ends."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """The results of the emulated runs: merged counters, a report per tool, warnings."""

    counters: dict[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    interrupted: bool


def emulate(order: Order, *, tools: Sequence[str], budget_s: float) -> Emulation:
    """Run a program under each of the emulation tools and return the merged counters.

    ``tools``: names of collectors, preferred first. ``budget_s``: processor time of all runs
    together, in seconds; their wall time is limited by the order's ``time_limit_s``.
    """
    counters: dict[str, Measurement] = {}
    reports: list[CollectorReport] = []
    warnings: dict[str, list[str]] = {}
    limit_s = budget_s * (1 - RESERVE) / max(1, len(tools))
    time_limit_s = order.time_limit_s or IDLE_FACTOR * limit_s
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="berth-pilot-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        limited = replace(
            order, kept=(*order.kept, name), cpu_limit_s=limit_s, time_limit_s=time_limit_s
        )
        for collector in (collector_of(tool, folder) for tool in tools):
            if (absent := collector.probe()) is not None:
                reports.append(CollectorReport(name=collector.name, status="absent", detail=absent))
                continue
            try:
                outcome = run_one(collector.prepare(limited))
            except Interrupted as stop:
                outcome, interrupted = stop.outcome, True
            readings = _of_whole_program(_finished(collector, outcome), outcome)
            counters = {**readings.counters, **counters}
            status = "failed" if readings.failed else "used"
            reports.append(
                CollectorReport(name=collector.name, status=status, detail=readings.detail)
            )
            for text in (*readings.warnings, *((readings.detail,) if readings.failed else ())):
                warnings.setdefault(text, []).append(collector.name)
            if interrupted:
                break
    said = tuple(f"{', '.join(names)}: {text}" for text, names in warnings.items())
    return Emulation(counters, tuple(reports), said, interrupted)


def _finished(collector: Collector, outcome: ProcessResult) -> Readings:
    """Return what a run counted; failed readings where its files do not fit on the disk."""
    try:
        return collector.finish(outcome)
    except OSError as error:
        why = f"{error.strerror}: counting needs a folder with more room in the variable TMPDIR"
        return Readings(detail=f"{tempfile.gettempdir()}: {why}", failed=True)


def _of_whole_program(readings: Readings, outcome: ProcessResult) -> Readings:
    """Return the readings of an emulated run, without counters where the program failed in it."""
    if outcome.succeeded or outcome.cut or readings.failed:
        return readings
    why = f"counts are refused: under emulation the program {outcome.describe()}, natively with 0"
    return replace(readings, counters={}, warnings=(), detail=why, failed=True)
