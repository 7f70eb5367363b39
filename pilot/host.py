"""This machine, as far as a Profile's provenance wants to know it."""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from berth.pilot.profile import Machine, Provenance
from berth.pilot.version import VERSION

CHUNK_BYTES = 1 << 20


def provenance() -> Provenance:
    """Who measures here, when, with what."""
    return Provenance(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        berth_version=VERSION,
        host_cpu=cpu_model(),
        kernel=f"{platform.system()} {platform.release()}",
        user=_user(),
    )


def machine() -> Machine:
    """This machine by name, and its GPUs' driver."""
    return Machine(host=platform.node(), gpu_driver=gpu_driver())


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's model name, or the machine type where it reports none."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "cpu", "Model"):
                    return value.strip()
    except OSError:
        pass
    return platform.machine()


def gpu_driver(version: Path = Path("/sys/module/nvidia/version")) -> str | None:
    """Version of NVIDIA's kernel driver; None: it is not loaded."""
    try:
        return version.read_text(encoding="ascii", errors="replace").strip() or None
    except OSError:
        return None


def cores() -> int:
    """Processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def sha256_of(path: Path) -> str | None:
    """Digest of a file, or None where it cannot be read."""
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
