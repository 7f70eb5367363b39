"""Collects workloads and usage of jobs from a shared folder; each is its file's owner's word.

The folder is for hosts that cannot reach the store: users, and root at the end of their jobs,
write files, and one process of the site reads them. Create it with mode 1733 and the reading user
as its owner; then users can add files, but not list, replace or remove each other's. Only regular
files with a single hard link are read: no symbolic links, FIFOs or devices.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.documents import MAX_DOCUMENT_BYTES
from berth.pilot.errors import BerthError, StoreError, UsageError
from berth.pilot.usage.at_job_end import SUFFIX
from berth.plugin.usernames import name_of
from berth.plugin.users.workloads import Peer, UserWorkloads

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
MOST_FILES = 1_000
"""Maximum number of files that one run reads."""
LEFTOVER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """What became of a file that was left for the store: stored by a name, or refused."""

    file: str
    user: str
    name: str | None = None
    """The workload's name in the store, or ``usage of job ID``; None: refused."""
    problem: str | None = None


def collect(folder: Path, workloads: UserWorkloads) -> Iterator[CollectedFile]:
    """Store each workload (``*.json``) and usage (``*.usage``) of the folder and remove its file.

    A refused file becomes ``*.refused``.

    Raises UsageError where the folder cannot be read, and StoreError where the store fails; the
    remaining files then stay.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None
    _remove_leftovers(folder, names)
    documents = [name for name in names if _is_complete(name)]
    for name in documents[:MOST_FILES]:
        yield _collected(folder / name, workloads)


def _remove_leftovers(folder: Path, names: Iterable[str]) -> None:
    """Remove what a process that was killed while it wrote left behind ``LEFTOVER_S`` ago."""
    for path in (folder / name for name in names if name.startswith(".")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > LEFTOVER_S:
                path.unlink()


def _is_complete(name: str) -> bool:
    """Return whether a file of this name is written completely: until then its name is hidden."""
    return name.endswith((".json", SUFFIX)) and not name.startswith(".")


def _collected(path: Path, workloads: UserWorkloads) -> CollectedFile:
    user = "?"
    try:
        uid, text = read_owned(path)
        user = name_of(uid)
        if path.suffix == SUFFIX:
            stored_as = f"usage of job {workloads.add_usage(Peer(uid, user), text)}"
        else:
            stored_as = workloads.add(Peer(uid, user), text, replace=True).name
    except StoreError:
        raise
    except BerthError as error:
        _set_aside(path)
        return CollectedFile(path.name, user, problem=error.message)
    path.unlink(missing_ok=True)
    return CollectedFile(path.name, user, stored_as)


def read_owned(path: Path) -> tuple[int, str]:
    """Return a regular file's owner (uid) and text, both read from the same open file.

    Raises UsageError for a symbolic link, FIFO, device or folder, for a file with several hard
    links (which may be another user's), and for one that is too large or not UTF-8.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        raise UsageError(f"{path.name}: not read: {error.strerror}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise UsageError(f"{path.name}: not a plain file")
    with os.fdopen(handle, "rb") as stream:
        if status.st_nlink != 1:
            raise UsageError(f"{path.name}: has {status.st_nlink} names: whose it is, is not sure")
        if status.st_size > MAX_DOCUMENT_BYTES:
            raise UsageError(f"{path.name}: larger than {MAX_DOCUMENT_BYTES} bytes")
        raw = stream.read(MAX_DOCUMENT_BYTES + 1)
    try:
        return status.st_uid, raw.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path.name}: not UTF-8 text") from None


def leave_for_collection(folder: Path, name: str, text: bytes) -> Path:
    """Write a file for the collector, completely or not at all; return its path. Raises OSError."""
    target = folder / f"{name}.json"
    temporary = folder / f".{name}.{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(
                handle, 0o644
            )  # readable by the collector, which is another user, despite the umask
            stream.write(text)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return target


def _set_aside(path: Path) -> None:
    try:
        path.rename(path.with_name(path.name + ".refused"))
    except OSError:
        return  # we may not rename it: the next run reports it again
