"""One applier at a time: a file lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from berth.pilot.errors import BerthError
from berth.plugin.host import HOST, Files, Host
from berth.plugin.mig.errors import Locked


@contextlib.contextmanager
def applier_lock(folder: Path, *, host: Host = HOST) -> Iterator[None]:
    """Hold the lock of this state folder. Raises Locked naming the process that has it."""
    path, files = folder / "lock", host.files
    try:
        files.make_folder(folder)
        descriptor = files.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise BerthError(
            f"{path}: cannot be opened: {error.strerror}",
            hint="applying keeps its lock and journal there; the owner is who cuts the GPUs",
        ) from None
    try:
        try:
            files.lock(descriptor)
        except BlockingIOError:
            raise _locked(files, descriptor) from None
        except OSError as error:
            raise BerthError(f"{path}: cannot be locked: {error.strerror}") from None
        with contextlib.suppress(OSError):  # the name is for people, the lock holds without it
            files.truncate(descriptor, 0)
            files.write(descriptor, f"{host.pid()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            files.close(descriptor)


def refuse_while_locked(folder: Path, *, host: Host = HOST) -> None:
    """Raises Locked where a process holds the lock of this state folder, as far as we may see."""
    files = host.files
    with contextlib.suppress(OSError):
        descriptor = files.open(folder / "lock", os.O_RDONLY)
        try:
            files.lock(descriptor)
        except BlockingIOError:
            raise _locked(files, descriptor) from None
        finally:
            files.close(descriptor)


def _locked(files: Files, descriptor: int) -> Locked:
    return Locked(
        f"another apply is under way (process {_holder(files, descriptor)})",
        hint="wait for it; a lock never outlives its process",
    )


def _holder(files: Files, descriptor: int) -> str:
    try:
        return files.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"
