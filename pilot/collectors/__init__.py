"""Collectors: each source of counters (perf, valgrind, NVML, ...) as a :class:`Collector`.

``registry`` finds collectors by name. Another package adds a collector with an entry point in the
group ``berth.collectors``.
"""

from berth.pilot.collectors.base import Collector, Readings, Stage

__all__ = ["Collector", "Readings", "Stage"]
