"""Properties of this machine: the provenance of a Profile, cores and caches."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.processor_name import processor_name
from berth.pilot.profile import Machine, Provenance
from berth.pilot.units import parse_bytes
from berth.pilot.version import VERSION

CHUNK_BYTES = 1 << 20


def provenance() -> Provenance:
    """Return user, time, Berth version, processor and kernel, for a Profile measured now."""
    return Provenance(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        berth_version=VERSION,
        host_cpu=cpu_model(),
        kernel=f"{platform.system()} {platform.release()}",
        user=_user(),
    )


def machine() -> Machine:
    """Return the host name of this machine and the version of its GPU driver."""
    return Machine(host=platform.node(), gpu_driver=gpu_driver())


def cpu_info() -> list[str]:
    """Return the lines of /proc/cpuinfo; empty where it cannot be read."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def cpu_model() -> str:
    """Return the processor's name, or the architecture where /proc/cpuinfo tells no name."""
    return processor_name(cpu_info()) or platform.machine()


def gpu_driver(version: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """Return the version of NVIDIA's kernel driver; None: the driver is not loaded."""
    try:
        return version.read_text(encoding="ascii", errors="replace").strip() or None
    except OSError:
        return None


def cores() -> int:
    """Return the number of logical processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 digest of a file in hex, or None if the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


SYSFS_CPUS = Path("/sys/devices/system/cpu")
_DATA = ("Data", "Unified")
"""Kinds of cache in sysfs that hold data."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The data caches of one level of the processors that this process may use."""

    level: int
    instance_bytes: int
    """Capacity of one cache; the mean where they differ, as on a processor of two kinds of core."""
    instances: int
    """Number of caches."""

    @property
    def total_bytes(self) -> int:
        """Return the capacity in bytes of all caches of this level together."""
        return self.instance_bytes * self.instances


@dataclass(frozen=True, slots=True)
class Topology:
    """Cores, memory and caches of the machine."""

    cores: int
    """Number of physical cores of the processors that this process may use."""
    memory_bytes: int
    caches: tuple[Cache, ...]
    """Caches by level, L1 first; a level that Linux does not report is left out."""
    sockets: int | None = None
    """Number of sockets of these processors; None: Linux does not report them."""

    def private(self, cache: Cache) -> bool:
        """Return whether each core has its own cache of this level."""
        return cache.instances >= self.cores


def topology(cpus: Iterable[int] | None = None, *, sysfs: Path = SYSFS_CPUS) -> Topology:
    """Return the cores, sockets and caches of the logical processors ``cpus`` that are online.

    Default: those that this process may use.
    """
    wanted = os.sched_getaffinity(0) if cpus is None else cpus
    usable = frozenset(cpu for cpu in wanted if _text(sysfs / f"cpu{cpu}/online") != "0")
    sizes: dict[int, dict[frozenset[int], int]] = {}
    for cpu in sorted(usable):
        for index in sorted(sysfs.glob(f"cpu{cpu}/cache/index*")):
            shared = _processors(index, "shared_cpu")
            if shared and _text(index / "level").isdigit() and _text(index / "type") in _DATA:
                level = sizes.setdefault(int(_text(index / "level")), {})
                level[usable & shared] = _bytes(_text(index / "size"))
    caches = tuple(
        Cache(level, sum(groups.values()) // len(groups), len(groups))
        for level, groups in sorted(sizes.items())
        if _disjoint(groups) and all(groups.values())
    )
    cores = _groups(usable, sysfs, "thread_siblings", "core_id") or sizes.get(1, {}).keys()
    if usable != frozenset[int]().union(*cores):
        cores = {frozenset({cpu}) for cpu in usable}
    sockets = _groups(usable, sysfs, "core_siblings", "physical_package_id")
    of_cache = (group for groups in sizes.values() for group in groups)
    if not all(any(group <= socket for socket in sockets) for group in of_cache):
        sockets = set()  # some firmware calls each cluster of an Arm processor a socket
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Topology(max(1, len(cores)), memory, caches, len(sockets) or None)


def _groups(usable: frozenset[int], sysfs: Path, name: str, number: str) -> set[frozenset[int]]:
    """Return the sets of processors that are one core, or one socket; empty: not reported.

    The processors of a set are siblings by ``name`` and have the same ``number``: kernels before
    4.6 call the two cores of an AMD module siblings.
    """
    places = {cpu: sysfs / f"cpu{cpu}/topology" for cpu in usable}
    numbers = {cpu: _text(place / number) for cpu, place in places.items()}
    siblings = {cpu: _processors(place, name) for cpu, place in places.items()}
    groups = {
        frozenset(other for other in usable & near if numbers[other] == numbers[cpu])
        for cpu, near in siblings.items()
        if near
    }
    return groups if _disjoint(groups) else set()


def _disjoint(groups: Collection[frozenset[int]]) -> bool:
    """Return whether no processor is in two groups; some firmware says so."""
    return sum(map(len, groups)) == len(frozenset[int]().union(*groups))


def _processors(folder: Path, name: str) -> frozenset[int] | None:
    """Return the processors in a bit mask (``<name>`` or ``<name>_map``), which every kernel
    writes, or in a list (``<name>_list``); None: not reported."""
    try:
        if mask := _text(folder / name) or _text(folder / f"{name}_map"):
            bits = int(mask.replace(",", ""), 16)
            return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1) or None
        ranges = [part.partition("-") for part in _text(folder / f"{name}_list").split(",")]
        return frozenset(cpu for a, _, b in ranges for cpu in range(int(a), int(b or a) + 1))
    except ValueError:
        return None


def _bytes(size: str) -> int:
    """Return the bytes of a size such as ``512K``; 0: not reported."""
    try:
        return parse_bytes(size)
    except UsageError:
        return 0


def _text(file: Path) -> str:
    """Return the content of a file in sysfs; empty: it cannot be read."""
    try:
        return file.read_text(encoding="ascii", errors="replace").strip("\0\n ")
    except OSError:
        return ""
