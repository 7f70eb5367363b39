"""This process's control groups, and what their quotas and a host leave of the processors."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from berth.pilot.shepherd.proc import machine_ticks, read_file
from berth.pilot.units import whole_number


def own_group(
    controller: str = "",
    membership: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
) -> Path | None:
    """Return the folder of this process's control group, or None.

    ``controller`` names a controller of version 1, such as ``cpu``; empty: version 2.
    """
    mounted = _mounted(controller, mounts)
    for line in read_file(str(membership)).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if mounted is not None and controller in controllers.split(","):
            root, folder = mounted
            inside = PurePosixPath(path)
            if ".." in inside.parts or not inside.is_relative_to(root):
                return folder  # a container: its own group is all that it sees
            return folder / inside.relative_to(root)
    return None


def _mounted(controller: str, mounts: Path) -> tuple[str, Path] | None:
    """Return the root and the folder of the mount with a controller's groups."""
    for line in read_file(str(mounts)).splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if len(words) < 5 or len(kind) < 3:
            continue
        is_ours = controller in kind[2].split(",") if controller else kind[0] == "cgroup2"
        if is_ours and kind[0] in ("cgroup", "cgroup2"):
            return words[3], Path(words[4])
    return None


def cpu_groups() -> tuple[Path, ...]:
    """Return the folders of the groups whose processor time is limited together with ours."""
    own = [group for group in (own_group("cpu"), own_group()) if group is not None]
    return tuple(folder for group in own for folder in (group, *group.parents))


def quota_share(cores: int, groups: Iterable[Path]) -> float:
    """Return the part of the time of ``cores`` computing threads that the groups' quotas grant.

    1: no quota, or a larger one. Reads ``cpu.max``, and ``cpu.cfs_quota_us`` of version 1.
    """
    shares = [1.0]
    for group in groups:
        words = read_file(f"{group}/cpu.max").split() or [
            read_file(f"{group}/cpu.cfs_{what}_us").strip() for what in ("quota", "period")
        ]
        quota, period = (whole_number(word) for word in (*words[:2], "", "")[:2])
        if quota and period:
            shares.append(quota / period / cores)
    return min(shares)


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """The kernel's clocks of processor time that was used, withheld by a quota, and stolen."""

    elapsed_s: float = 0.0
    busy: int = 0
    """Ticks for which the machine's processors computed."""
    stolen: int = 0
    """Ticks for which the host of a virtual machine had them."""
    throttled_s: float = 0.0
    """Time for which a quota, also of a group outside a container, withheld processors from us."""

    @classmethod
    def now(cls, groups: Iterable[Path]) -> ProcessorTime:
        """Read the clocks; ``groups``: this process's own and those above them."""
        ticks = machine_ticks()
        throttled_s = 0.0
        for group in groups:
            for line in read_file(f"{group}/cpu.stat.local").splitlines():
                name, _, value = line.partition(" ")
                unit_s = {"throttled_usec": 1e-6, "throttled_time": 1e-9}.get(name, 0.0)
                throttled_s = max(throttled_s, unit_s * (whole_number(value) or 0))
        busy, stolen = ticks.get("busy", 0), ticks.get("stolen", 0)
        return cls(time.monotonic(), busy, stolen, throttled_s)

    def plus(self, begin: ProcessorTime, end: ProcessorTime) -> ProcessorTime:
        """Return the sum of this time and that between two readings of the clocks."""
        return ProcessorTime(
            self.elapsed_s + end.elapsed_s - begin.elapsed_s,
            self.busy + end.busy - begin.busy,
            self.stolen + end.stolen - begin.stolen,
            self.throttled_s + end.throttled_s - begin.throttled_s,
        )

    def share(self, cores: int, quota: float) -> float:
        """Return the part of ``cores`` processors' time that a quota and a host leave.

        ``quota``: the part that known quotas grant. Where there is none, the time counts for which
        a quota that cannot be seen withheld processors. What other programs take counts nowhere.
        """
        withheld = self.throttled_s / (cores * self.elapsed_s) if self.elapsed_s else 0.0
        taken = self.stolen / max(1, self.busy + self.stolen)
        return (quota if quota < 1 else max(0.0, 1 - withheld)) * (1 - taken)
