"""Processor time and page faults as wait4(2) reports them for the whole process tree."""

from __future__ import annotations

from berth.pilot.collectors import Collector, Readings
from berth.pilot.collectors.base import measured
from berth.pilot.launch import ProcessResult

FIELDS = {
    "cpu_time_s": ("ru_utime", "ru_stime"),
    "cpu_system_s": ("ru_stime",),
    "page_faults": ("ru_minflt", "ru_majflt"),
    "page_faults_major": ("ru_majflt",),
}
"""Counters of Berth's catalogue, each as a sum of fields."""


class RusageCollector(Collector):
    """Costs nothing: the kernel has counted already when the program ends."""

    name = "rusage"

    def probe(self) -> str | None:
        """See Collector. Every Unix has it."""
        return None

    def finish(self, outcome: ProcessResult) -> Readings:
        """See Collector."""
        counters = {
            name: measured("rusage", sum(outcome.usage.get(field, 0) for field in fields))
            for name, fields in FIELDS.items()
        }
        return Readings(counters, f"{len(counters)} counters")
