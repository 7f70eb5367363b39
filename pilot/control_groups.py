"""This process's control groups, and what their quotas leave of the processors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from berth.pilot.shepherd.proc import read_file
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


def withheld_s(groups: Iterable[Path]) -> float:
    """Return the processor seconds so far that a quota withheld from us, also that of a group
    outside a container, which cannot be seen. ``groups``: our own and those above them."""
    withheld = 0.0
    for group in groups:
        for line in read_file(f"{group}/cpu.stat.local").splitlines():
            name, _, value = line.partition(" ")
            unit_s = {"throttled_usec": 1e-6, "throttled_time": 1e-9}.get(name, 0.0)
            withheld = max(withheld, unit_s * (whole_number(value) or 0))
    return withheld
