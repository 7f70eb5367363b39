"""Collector of Linux's own counters of every process (/proc, getrusage); needs no privileges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings, measured
from berth.pilot.launch import TICK_S, ProcessResult
from berth.pilot.plausible import contention
from berth.pilot.profile import Measurement
from berth.pilot.shepherd.proc import descendants_of, numbers_of, read_file
from berth.pilot.units import format_bytes

SAMPLED = "sampled; a peak between two samples is not seen"
IO_FIELDS = {
    "rchar": "io_bytes_read",
    "wchar": "io_bytes_written",
    "syscr": "read_calls",
    "syscw": "write_calls",
    "read_bytes": "storage_bytes_read",
    "write_bytes": "storage_bytes_written",
}
LEAST_SAMPLES = 20
"""Samples of the bytes written that a rate needs: four seconds."""
RATE = "it wrote {rate} a second at a constant rate: its time is all its output over that"
STEADY = 0.2
"""Relative difference between a quarter's rate and the whole's up to which a rate is constant."""


def steady_rate(written: Sequence[tuple[float, int]]) -> float | None:
    """Return the bytes a second of a program that wrote at a constant rate; None: it did not.

    ``written``: clock in seconds and bytes written since the start, at about even intervals.
    """
    if len(written) < LEAST_SAMPLES:
        return None
    marks = [written[(len(written) - 1) * quarter // 4] for quarter in range(5)]
    (began_s, first), (ended_s, last) = marks[0], marks[-1]
    rate = (last - first) / (ended_s - began_s)
    quarters = [(more - few) / (then - now) for (now, few), (then, more) in pairwise(marks)]
    steady = all(abs(each - rate) <= STEADY * rate for each in quarters)
    return rate if rate > 0 and steady else None


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Largest memory of the process tree in bytes, with a note on its accuracy."""

    bytes: int
    note: str | None
    is_bound: bool = False
    """True where ``bytes`` is only an upper bound: it includes the memory of the process that
    started the program, or pages that several processes share."""


def peak_memory(
    outcome: ProcessResult, group: tuple[float, float] | None = None
) -> PeakMemory | None:
    """Return the peak memory of the process tree; None if unknown.

    Of one process it is ``ru_maxrss``, which is exact but never below the memory of the process
    that forked it. Of several it is that of their control group, where the program had one:
    ``group`` has the bytes between which it lies, and within these the sum of the processes' own
    peaks decides. Without a group that sum is an upper bound.
    """
    exact = int(outcome.usage.get("ru_maxrss", 0))
    if outcome.processes_peak > 1 or not exact:
        if group is not None:
            low, high = group
            together = int(min(max(outcome.hwm_sum_peak or high, low), high))
            return PeakMemory(max(exact, together), None)
        if outcome.hwm_sum_peak > exact:
            apart = "an upper bound: the sum of what each process had at most, without a group"
            return PeakMemory(outcome.hwm_sum_peak, apart, is_bound=True)
    if exact == 0:
        return None
    low = exact <= outcome.rss_floor
    note = "an upper bound: the program is too small to tell" if low else None
    return PeakMemory(exact, note, is_bound=low)


class ProcCollector(Collector):
    """Returns the counters that the launcher sampled in /proc and got from wait4(2)."""

    name = "proc"
    why_missing = "the program ended before it was seen, or the kernel did not say"

    def __init__(self, folder: Path | None = None) -> None:
        self._written: list[tuple[float, int]] = []

    def watch(self, shepherd_pid: int) -> None:
        now = time.monotonic()
        if self._written and now - self._written[-1][0] < TICK_S:
            return  # the program's output wakes the watcher, too
        each = (numbers_of(read_file(f"/proc/{pid}/io")) for pid in descendants_of(shepherd_pid))
        self._written.append((now, sum(io.get("wchar", 0) for io in each)))

    def probe(self) -> str | None:
        return None if Path("/proc/self/status").exists() else "/proc is not mounted"

    def finish(self, outcome: ProcessResult) -> Readings:
        counters: dict[str, Measurement] = {}
        used = outcome.usage
        totals = {
            "page_faults": used.get("ru_minflt", 0) + used.get("ru_majflt", 0),
            "page_faults_major": used.get("ru_majflt", 0),
            "cpu_time_s": used.get("ru_utime", 0) + used.get("ru_stime", 0),
            "cpu_system_s": used.get("ru_stime", 0),
            "context_switches": used.get("ru_nvcsw", 0) + used.get("ru_nivcsw", 0),
            "context_switches_involuntary": used.get("ru_nivcsw", 0),
        }
        counters.update({name: measured("proc", value) for name, value in totals.items()})
        for field, name in IO_FIELDS.items():
            if outcome.io is not None and field in outcome.io:
                counters[name] = measured("proc", outcome.io[field])
        if outcome.samples and outcome.rss_peak:
            counters["threads"] = measured("proc", outcome.threads_peak, SAMPLED)
            counters["processes"] = measured("proc", outcome.processes_peak, SAMPLED)
            counters["page_table_bytes"] = measured("proc", outcome.page_tables_peak, SAMPLED)
            if outcome.files_peak:
                counters["files_opened"] = measured("proc", outcome.files_peak, SAMPLED)
        if outcome.threads_busy:
            counters["threads_busy"] = measured("proc", outcome.threads_busy, SAMPLED)
            counters["run_queue_s"] = measured("proc", outcome.waited_s, SAMPLED)
        shared = contention(outcome)
        if shared is not None:
            counters["other_load"] = measured("proc", shared.other_cores)
            counters["stolen_ratio"] = measured("proc", shared.stolen_share)
        levels = page_table_levels()
        if levels is not None:
            counters["page_table_levels"] = measured("proc", levels)
        detail = f"{outcome.samples} samples, {outcome.sampling_cost_s * 1e3:.1f} ms of sampling"
        rate = steady_rate(self._written) if outcome.cut == "time limit" else None
        warnings = () if rate is None else (RATE.format(rate=format_bytes(rate)),)
        return Readings(counters, detail, warnings)


def page_table_levels(cpuinfo: Path = Path("/proc/cpuinfo")) -> int | None:
    """Return the number of page table levels on x86-64 (4 or 5); None on other architectures."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as stream:
            flags = next((line for line in stream if line.startswith("flags")), "")
    except OSError:
        return None
    words = flags.split()
    if "lm" not in words:
        return None
    return 5 if "la57" in words else 4
