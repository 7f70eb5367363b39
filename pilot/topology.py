"""Cores and caches of this machine, as far as this process may use them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.units import parse_bytes

SYSFS_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Cache:
    """All data caches of one level that the usable processors have."""

    level: int
    instance_bytes: int
    """Of one cache."""
    instances: int
    """How many of them there are."""

    @property
    def total_bytes(self) -> int:
        """Of all instances."""
        return self.instance_bytes * self.instances


@dataclass(frozen=True, slots=True)
class Topology:
    """What the benchmark has to know of the machine."""

    cores: int
    """Physical cores among the usable processors."""
    memory_bytes: int
    caches: tuple[Cache, ...]
    """By level, nearest first; empty where the system does not tell."""

    def private(self, cache: Cache) -> bool:
        """Whether each core has its own."""
        return cache.instances >= self.cores


def topology(cpus: Iterable[int] | None = None, *, sysfs: Path = SYSFS_CPUS) -> Topology:
    """This machine's, restricted to ``cpus`` (default: those this process may use)."""
    usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    found: dict[int, dict[str, int]] = {}
    for cpu in usable:
        for index in sorted(sysfs.glob(f"cpu{cpu}/cache/index*")):
            entry = _cache(index)
            if entry is not None:
                level, shared, size = entry
                found.setdefault(level, {})[shared] = size
    caches = tuple(
        Cache(level, max(instances.values()), len(instances))
        for level, instances in sorted(found.items())
    )
    # Threads of one core share its first-level cache.
    cores = caches[0].instances if caches and caches[0].level == 1 else len(usable)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Topology(max(1, cores), memory, caches)


def _cache(index: Path) -> tuple[int, str, int] | None:
    """Level, the processors that share it, bytes; None for an instruction cache."""
    try:
        if (index / "type").read_text().strip() == "Instruction":
            return None
        level = int((index / "level").read_text())
        shared = (index / "shared_cpu_list").read_text().strip()
        size = parse_bytes((index / "size").read_text())
    except (OSError, ValueError, UsageError):
        return None
    return level, shared, size
