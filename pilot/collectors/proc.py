"""Collector of Linux's own counters of every process (/proc, getrusage); needs no privileges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings, measured
from berth.pilot.launch import ProcessResult
from berth.pilot.plausible import contention
from berth.pilot.profile import Measurement

SAMPLED = "sampled; a peak between two samples is not seen"
IO_FIELDS = {
    "rchar": "io_bytes_read",
    "wchar": "io_bytes_written",
    "syscr": "read_calls",
    "syscw": "write_calls",
    "read_bytes": "storage_bytes_read",
    "write_bytes": "storage_bytes_written",
}


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
        return Readings(counters, detail)


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
