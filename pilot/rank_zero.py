"""The counters of one rank of a parallel launch, added to the Profile of an earlier launch.

Ranks wait for each other, so each launch can run a rank once only: a first launch gives time and
memory (``run_pilot`` with one repeat around rank 0), a second one counts. Rank 0 then stands for
all ranks: its counters and its peak memory times the number of ranks, marked as derived so.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.assemble import with_missing
from berth.pilot.collectors.perf import PerfCollector
from berth.pilot.derive import derive
from berth.pilot.emulate import emulate, scaled_error
from berth.pilot.launch import Order, run_all
from berth.pilot.profile import CollectorReport, Measurement, Profile, Quality
from berth.pilot.run import EMULATION_FLOOR_S

EMULATORS = ("emulator", "callgrind")
"""Tools whose single run gives instructions, memory accesses and cache misses together."""
_RATIO_UNITS = ("_ratio", "_intensity", "_per_cycle", "_levels")


@dataclass(frozen=True, slots=True)
class Counted:
    """What the one run gave."""

    counters: Mapping[str, Measurement]
    reports: tuple[CollectorReport, ...]
    warnings: tuple[str, ...]
    succeeded: bool


def count_once(order: Order, *, native_s: float, max_slowdown: float, left_s: float) -> Counted:
    """Run ``order`` exactly once, under hardware counters or, without these, emulated.

    ``native_s`` is its time without any tool; the emulated run is cut after ``max_slowdown``
    times that, and in any case after ``left_s``.
    """
    with tempfile.TemporaryDirectory(prefix="berth-rank-") as folder:
        perf = PerfCollector(Path(folder))
        if perf.probe() is None:
            [outcome] = run_all([perf.prepare(replace(order, time_limit_s=left_s))], jobs=1)
            found = perf.finish(outcome)
            report = CollectorReport(
                name="perf", status="failed" if found.failed else "used", detail=found.detail
            )
            return Counted(found.counters, (report,), (), outcome.succeeded)
    budget_s = min(left_s, max(EMULATION_FLOOR_S, max_slowdown * native_s))
    started_s = time.monotonic()
    emulated = emulate(order, tools=EMULATORS, budget_s=budget_s, jobs=1)
    used = any(report.status == "used" for report in emulated.reports)
    if all(report.status == "absent" for report in emulated.reports):
        run_all([replace(order, time_limit_s=left_s)], jobs=1)  # the other ranks wait for this one
    cut = time.monotonic() - started_s >= budget_s
    return Counted(
        emulated.counters,
        emulated.reports,
        emulated.warnings,
        used and not cut and not emulated.interrupted,
    )


def added(profile: Profile, counted: Counted) -> Profile:
    """``profile`` of rank 0 with the counters, and rank 0 standing for all ranks."""
    ranks = profile.runs_on.ranks
    known = {n: m for n, m in profile.counters.items() if m.value is not None}
    totals = {
        name: _times(measurement, ranks)
        for name, measurement in {**counted.counters, **known}.items()
        if measurement.quality is not Quality.DERIVED and not name.endswith(_RATIO_UNITS)
    }
    reports = (
        *(r for r in profile.collectors if r.name not in {c.name for c in counted.reports}),
        *counted.reports,
    )
    memory = profile.peak_memory_bytes
    note = f"rank 0 stands for all {ranks} ranks: counters and peak memory are its own x {ranks}"
    return profile.model_copy(
        update={
            "counters": with_missing(derive(totals), reports),
            "collectors": reports,
            "peak_memory_bytes": None if memory is None else memory * ranks,
            "warnings": (*profile.warnings, *counted.warnings, note),
        }
    )


def _times(measurement: Measurement, ranks: int) -> Measurement:
    if ranks == 1 or measurement.value is None:
        return measurement
    note = f"rank 0 x {ranks} ranks"
    return measurement.model_copy(
        update={
            "value": measurement.value * ranks,
            "standard_error": scaled_error(measurement, ranks),
            "note": f"{measurement.note}; {note}" if measurement.note else note,
        }
    )
