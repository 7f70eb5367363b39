"""What a host gives to whatever runs on it: clocks, threads, files, sockets' readiness.

The daemon and an apply of MIG layouts ask these instead of the standard library, so that the
simulation (``tests/simulation``) can run the same code on a host whose every call may fail, be
slow, be partial or be the last one. ``HOST`` is the real one.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

_NEW_FILE = 0o600


class Clock(Protocol):
    """A clock with the functions of the module ``time``."""

    def time(self) -> float:
        """Return Unix seconds."""
        ...

    def time_ns(self) -> int:
        """Return Unix nanoseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment; never set back."""
        ...

    def perf_counter_ns(self) -> int:
        """Return nanoseconds since some moment."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait."""
        ...


class Files(Protocol):
    """Single system calls on files. All raise OSError."""

    def open(self, path: Path, flags: int, mode: int = _NEW_FILE) -> int:
        """Return a descriptor, closed on exec, that follows no symbolic link."""
        ...

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        ...

    def write(self, descriptor: int, data: bytes) -> int:
        """Write ``data``, maybe not all, and return how many bytes were written."""
        ...

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        """Read bytes of an open file."""
        ...

    def size(self, descriptor: int) -> int:
        """Return the bytes of an open file."""
        ...

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file."""
        ...

    def sync(self, descriptor: int) -> None:
        """Wait until the disk has what was written to a file, or the entries of a folder."""
        ...

    def lock(self, descriptor: int, *, wait: bool = False) -> None:
        """Lock as ``flock``, for this process alone. Raises BlockingIOError where another has
        it."""
        ...

    def leads_to(self, path: Path, descriptor: int) -> bool:
        """Tell whether the path is still that of the open file."""
        ...

    def reading(self, path: Path) -> BinaryIO:
        """Open the file, to be read from its beginning."""
        ...

    def exists(self, path: Path) -> bool:
        """Tell whether there is such a file or folder; raises where that cannot be seen."""
        ...

    def size_of(self, path: Path) -> int:
        """Return the bytes of a file."""
        ...

    def names(self, folder: Path) -> list[str]:
        """List what is in a folder, in no order."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is none to be removed."""
        ...

    def replace(self, path: Path, target: Path) -> None:
        """Move a file, at once, over what is there."""
        ...

    def make_folder(self, path: Path, mode: int = 0o755) -> None:
        """Make a folder and those above it, where they are not there."""
        ...


class SystemFiles:
    """The host's own."""

    def open(self, path: Path, flags: int, mode: int = _NEW_FILE) -> int:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return os.pread(descriptor, count, offset)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def lock(self, descriptor: int, *, wait: bool = False) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def leads_to(self, path: Path, descriptor: int) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(path.lstat(), os.fstat(descriptor))
        return False

    def reading(self, path: Path) -> BinaryIO:
        return path.open("rb")

    def exists(self, path: Path) -> bool:
        try:
            os.stat(path)  # noqa: PTH116 - at every request, a fifth of Path.exists
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size_of(self, path: Path) -> int:
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)  # noqa: PTH208 - names, not paths

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def replace(self, path: Path, target: Path) -> None:
        path.replace(target)

    def make_folder(self, path: Path, mode: int = 0o755) -> None:
        path.mkdir(mode=mode, parents=True, exist_ok=True)


class Event(Protocol):
    """An event like ``threading.Event``."""

    def set(self) -> None:
        """Let those who wait go on."""
        ...

    def clear(self) -> None:
        """Make ``wait`` wait from now on."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; False: the time was over first."""
        ...


class Thread(Protocol):
    """A thread like ``threading.Thread``."""

    def start(self) -> None:
        """Begin."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        ...

    def is_alive(self) -> bool:
        """Tell whether it is between its start and its end."""
        ...


class Threads(Protocol):
    """Makes threads that end with the process."""

    def event(self) -> Event:
        """Return an event that is not set."""
        ...

    def thread(self, name: str, run: Callable[[], None]) -> Thread:
        """Return a thread that was not started."""
        ...


class SystemThreads:
    """The interpreter's own."""

    def event(self) -> Event:
        return threading.Event()

    def thread(self, name: str, run: Callable[[], None]) -> Thread:
        return threading.Thread(target=run, name=name, daemon=True)


class Poll(Protocol):
    """A selector like ``select.epoll``."""

    def register(self, fd: int, eventmask: int, /) -> None:
        """Watch a descriptor."""
        ...

    def modify(self, fd: int, eventmask: int, /) -> None:
        """Watch it for something else."""
        ...

    def poll(self, timeout: float | None, maxevents: int, /) -> list[tuple[int, int]]:
        """Return what is ready, at the latest after ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """Watch no more."""
        ...


class Network(Protocol):
    """What one loop over many sockets needs beside them."""

    def poll(self) -> Poll:
        """Return a selector that watches nothing yet."""
        ...

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two connected ends, to wake the loop."""
        ...

    def spare(self) -> int:
        """Return a descriptor that is of no use but to be given up when there are no others."""
        ...

    def give_up(self, descriptor: int) -> None:
        """Close the spare descriptor."""
        ...


class SystemNetwork:
    """The host's own."""

    def poll(self) -> Poll:
        return select.epoll()

    def pair(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    def spare(self) -> int:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def give_up(self, descriptor: int) -> None:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Host:
    """All of it."""

    clock: Clock = time
    files: Files = field(default_factory=SystemFiles)
    threads: Threads = field(default_factory=SystemThreads)
    network: Network = field(default_factory=SystemNetwork)
    pid: Callable[[], int] = os.getpid
    name: Callable[[], str] = socket.gethostname


HOST = Host()
"""This one."""
