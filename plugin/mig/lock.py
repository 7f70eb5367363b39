"""One applier at a time: a file lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.mig.errors import Locked


@contextlib.contextmanager
def applier_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of this state folder. Raises Locked naming the process that has it."""
    path = folder / "lock"
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise BerthError(
            f"{path}: cannot be opened: {error.strerror}",
            hint="applying keeps its lock and journal there; the owner is who cuts the GPUs",
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise Locked(
                f"another applier is at work (process {holder})",
                hint="wait for it; a lock never outlives its process",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
