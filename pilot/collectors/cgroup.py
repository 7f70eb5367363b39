"""Collector of memory, I/O and processor time from a control group of the program's own.

The program runs in a new child of the pilot's own control group: of version 2 if the site delegates
control, else of version 1 if there is a right to make one. The kernel's figures then cover exactly
the program and all its child processes.

The kernel's peak of a group includes page cache, which a program does not need. Between two looks
the page cache is known at both ends, so that the peak without it lies between two numbers. They are
equal where the page cache did not change.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path

from berth.pilot.collectors.base import Collector, Readings, measured
from berth.pilot.control_groups import own_group
from berth.pilot.launch import Order, ProcessResult
from berth.pilot.profile import Measurement
from berth.pilot.units import whole_number

SOURCE = "cgroup"
PAIR = re.compile(r"([a-z_]+)[= ](\d+)", re.ASCII)
PEAKS = ("memory.peak", "memory.max_usage_in_bytes")
"""Name of the file with a group's peak, in versions 2 and 1."""


def parse_pairs(text: str) -> dict[str, int]:
    """Return the sum of each key over lines such as ``usage_usec 12`` or ``8:0 rbytes=1``."""
    total: dict[str, int] = {}
    for match in PAIR.finditer(text):
        total[match.group(1)] = total.get(match.group(1), 0) + int(match.group(2))
    return total


class CgroupCollector(Collector):
    """Runs the program in a new child control group and reads the group's counters."""

    name = "cgroup"
    why_missing = "needs a control group: {detail}"
    not_seen = "it said nothing"

    def __init__(self, folder: Path | None = None, *, parent: Path | None = None) -> None:
        self._parent = parent
        self._group: Path | None = None
        self._view: str | None = None
        self._open: int | None = None
        """Descriptor of the file with the group's peak: version 2 begins anew for a descriptor."""
        self._largest = 0
        self._cached = 0
        self._between = (0, 0)

    def probe(self) -> str | None:
        if self._parent is not None:
            return _why_not(self._parent)
        reasons = []
        for parent in (own_group(), own_group("memory")):
            why = "none is mounted" if parent is None else _why_not(parent)
            if why is None:
                self._parent = parent
                return None
            reasons.append(why)
        return "; ".join(dict.fromkeys(reasons))

    def prepare(self, order: Order) -> Order:
        if self._parent is None:
            return order
        group = self._parent / f"berth-pilot-{os.getpid()}-{id(self):x}"
        try:
            group.mkdir()
        except OSError:
            return order
        self._group, self._view = group, order.isolated_in
        for file in (group / name for name in PEAKS if (group / name).exists()):
            writable = os.access(file, os.W_OK)
            self._open = os.open(file, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        return replace(order, groups=(*order.groups, str(group)))

    def watch(self, shepherd_pid: int) -> None:
        """Look at the group's peak since the last look, and at its page cache now."""
        if self._group is None:
            return
        peak, since_last_look = self._peak()
        if peak is None or (peak <= self._largest and not since_last_look):
            return
        cached = _cached_bytes(self._group, self._written_bytes(shepherd_pid))
        low, high = sorted((cached, self._cached))
        self._largest, self._cached = max(self._largest, peak), cached
        self._between = (max(self._between[0], peak - high), max(self._between[1], peak - low))

    def _peak(self) -> tuple[int | None, bool]:
        """Return the largest memory of the group, and whether that is since the last call: older
        kernels tell it only since the group was made."""
        if self._open is None:
            return None, False
        peak = whole_number(os.pread(self._open, 64, 0).decode().strip())
        try:
            os.write(self._open, b"0")
        except OSError:
            return peak, False
        return peak, True

    def _written_bytes(self, shepherd_pid: int) -> int:
        """Return the memory that holds what an isolated program wrote."""
        try:
            room = os.statvfs(f"/proc/{shepherd_pid}/root{self._view}")
        except OSError:
            return 0
        return (room.f_blocks - room.f_bfree) * room.f_frsize if self._view else 0

    def finish(self, outcome: ProcessResult) -> Readings:
        if self._group is None:
            return Readings(detail="the group could not be made", failed=True)
        self.watch(0)
        if self._open is not None:
            os.close(self._open)
        counters: dict[str, Measurement] = {}
        if self._largest:
            counters["cgroup_memory_peak_bytes"] = measured(SOURCE, self._largest)
        io = parse_pairs(_read(self._group / "io.stat"))
        for key, name in (("rbytes", "storage_bytes_read"), ("wbytes", "storage_bytes_written")):
            if key in io:
                counters[name] = measured(SOURCE, io[key])
        cpu = parse_pairs(_read(self._group / "cpu.stat"))
        for key, name in (("usage_usec", "cpu_time_s"), ("system_usec", "cpu_system_s")):
            if key in cpu:
                counters[name] = measured(SOURCE, cpu[key] / 1e6)
        with contextlib.suppress(OSError):
            self._group.rmdir()
        low, high = (float(max(0, each)) for each in self._between)
        memory = (low, high) if high > 0 else None
        detail = f"{len(counters)} counters"
        return Readings(counters, detail, failed=not counters, memory=memory)


def _why_not(parent: Path) -> str | None:
    """Return why no group can be made in ``parent``, or None."""
    delegated = parent / "cgroup.subtree_control"
    if delegated.exists() and "memory" not in _read(delegated).split():
        return f"the memory controller is not delegated below {parent}"
    return None if os.access(parent, os.W_OK) else f"no right to make a group in {parent}"


def _cached_bytes(group: Path, written_bytes: int) -> int:
    """Return the page cache of a group: that of files, and what an isolated program wrote.

    Shared memory counts as page cache in the kernel's figure, but the program needs it.
    """
    has = parse_pairs(_read(group / "memory.stat"))
    cache = has.get("file", has.get("total_cache", 0))
    shared = has.get("total_shmem", has.get("shmem", 0))
    return max(0, cache - max(0, shared - written_bytes))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
