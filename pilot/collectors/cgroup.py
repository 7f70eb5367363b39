"""Collector of memory, I/O and processor time from control groups (cgroup version 2).

The program runs in a new child of the pilot's own control group, if the site delegates control.
The kernel's figures then cover exactly the program and all its child processes.
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


def parse_pairs(text: str) -> dict[str, int]:
    """Return the sum of each key over lines such as ``usage_usec 12`` or ``8:0 rbytes=1``."""
    total: dict[str, int] = {}
    for match in PAIR.finditer(text):
        total[match.group(1)] = total.get(match.group(1), 0) + int(match.group(2))
    return total


class CgroupCollector(Collector):
    """Runs the program in a new child control group and reads the group's counters at the end."""

    name = "cgroup"
    why_missing = "needs a control group: {detail}"
    not_seen = "it said nothing"

    def __init__(self, folder: Path | None = None, *, parent: Path | None = None) -> None:
        self._parent = parent if parent is not None else own_group()
        self._group: Path | None = None

    def probe(self) -> str | None:
        if self._parent is None:
            return "no control group of version 2 is mounted"
        if "memory" not in _read(self._parent / "cgroup.subtree_control").split():
            return f"the memory controller is not delegated below {self._parent}"
        if not os.access(self._parent, os.W_OK):
            return f"no right to make a group in {self._parent}"
        return None

    def prepare(self, order: Order) -> Order:
        if self._parent is None:
            return order
        group = self._parent / f"berth-pilot-{os.getpid()}"
        try:
            group.mkdir(exist_ok=True)
        except OSError:
            return order
        self._group = group
        return replace(order, cgroup=str(group))

    def finish(self, outcome: ProcessResult) -> Readings:
        if self._group is None:
            return Readings(detail="the group could not be made", failed=True)
        counters: dict[str, Measurement] = {}
        peak = whole_number(_read(self._group / "memory.peak").strip())
        if peak is not None:
            counters["cgroup_memory_peak_bytes"] = measured(SOURCE, peak)
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
        return Readings(counters, f"{len(counters)} counters", failed=not counters)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
