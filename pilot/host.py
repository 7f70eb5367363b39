"""Properties of this machine: the provenance of a Profile, cores and caches."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.errors import UsageError
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
    """Return the processor's model name, or the architecture if /proc/cpuinfo has no model name."""
    for line in cpu_info():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "cpu", "Model"):
            return value.strip()
    return platform.machine()


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


@dataclass(frozen=True, slots=True)
class Cache:
    """The data caches of one level of the processors that this process may use."""

    level: int
    instance_bytes: int
    """Capacity of one cache."""
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
    """Caches by level, L1 first; empty: Linux does not report them."""

    def private(self, cache: Cache) -> bool:
        """Return whether each core has its own cache of this level."""
        return cache.instances >= self.cores


def topology(cpus: Iterable[int] | None = None, *, sysfs: Path = SYSFS_CPUS) -> Topology:
    """Return the cores and caches of the logical processors ``cpus``.

    Default: those that this process may use.
    """
    usable = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    sizes: dict[int, dict[str, int]] = {}
    for cpu in usable:
        for index in sorted(sysfs.glob(f"cpu{cpu}/cache/index*")):
            entry = _cache(index)
            if entry is not None:
                level, shared, size = entry
                sizes.setdefault(level, {})[shared] = size
    caches = tuple(
        Cache(level, max(instances.values()), len(instances))
        for level, instances in sorted(sizes.items())
    )
    # Hardware threads of a core share its L1 cache, so the number of L1 caches is that of cores.
    cores = caches[0].instances if caches and caches[0].level == 1 else len(usable)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Topology(max(1, cores), memory, caches)


def _cache(index: Path) -> tuple[int, str, int] | None:
    """Return (level, list of processors that share the cache, bytes) of a cache in sysfs.

    None: an instruction cache, or unreadable.
    """
    try:
        if (index / "type").read_text().strip() == "Instruction":
            return None
        level = int((index / "level").read_text())
        shared = (index / "shared_cpu_list").read_text().strip()
        size = parse_bytes((index / "size").read_text())
    except (OSError, ValueError, UsageError):
        return None
    return level, shared, size
