"""Files of the scheduler's configuration: read as they are, replaced whole, owner and mode kept."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from berth.pilot.errors import BerthError

POLL_S = 0.05


@contextmanager
def one_writer(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Nobody else is in here for this file: nodes that are cut at once may share slurm.conf.

    A file beside it is locked, for the file itself is replaced; over NFS, too, where that locks.
    Raises BerthError where another writer does not end in time.
    """
    real = path.resolve()
    beside = real.with_name(f".{real.name}.berth-lock")
    try:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BerthError(f"{beside}: cannot be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + timeout_s
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise BerthError(f"{path}: another node's cut has been at it for {timeout_s:.0f} s")
            time.sleep(POLL_S)
        yield
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # this file system knows no locks: as good as it gets
    return True


def read(path: Path) -> str:
    """The text. Raises BerthError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BerthError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise BerthError(f"{path}: cannot be read: {error.strerror}") from None


def replace(path: Path, text: str) -> None:
    """Write atomically and flush to the disk; a symbolic link keeps pointing where it does."""
    real = path.resolve()
    temporary = None
    try:
        before = real.stat()
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), before.st_mode & 0o7777)
            if os.geteuid() == 0:
                os.fchown(stream.fileno(), before.st_uid, before.st_gid)
            os.fsync(stream.fileno())
        Path(temporary).replace(real)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise BerthError(f"{path}: cannot be written: {error.strerror}") from None
