"""Operating-system services for the daemon and MIG changes: clocks, threads, files, socket polling.

The daemon and ``berth mig apply`` use these instead of the standard library, so that the simulation
(``tests/simulation``) can run the same code on a simulated host, where any call may fail, be slow,
be partial or be the last before a crash. ``HOST`` is the real host.
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
    """A clock with the functions of the Python module ``time``."""

    def time(self) -> float:
        """Return Unix seconds."""
        ...

    def time_ns(self) -> int:
        """Return Unix nanoseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; the value never decreases."""
        ...

    def perf_counter_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait for that many seconds."""
        ...


class Files:
    """Single system calls on files. All methods raise OSError."""

    def open(self, path: Path, flags: int, mode: int = _NEW_FILE) -> int:
        """Open a file without following a symbolic link, closed on exec; return the descriptor."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write ``data``, possibly not all of it, and return the number of bytes written."""
        return os.write(descriptor, data)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        """Return up to ``count`` bytes at ``offset`` of an open file."""
        return os.pread(descriptor, count, offset)

    def size(self, descriptor: int) -> int:
        """Return the size of an open file in bytes."""
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate an open file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the data of an open file, or the entries of an open folder, are on disk."""
        os.fsync(descriptor)

    def lock(self, descriptor: int, *, wait: bool = False) -> None:
        """Lock an open file exclusively, as ``flock`` does. Raises BlockingIOError where another
        process holds the lock, unless ``wait``.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def leads_to(self, path: Path, descriptor: int) -> bool:
        """Return whether the path still refers to the open file."""
        with suppress(FileNotFoundError):
            return os.path.samestat(path.lstat(), os.fstat(descriptor))
        return False

    def reading(self, path: Path) -> BinaryIO:
        """Open the file for reading from its beginning."""
        return path.open("rb")

    def exists(self, path: Path) -> bool:
        """Return whether the file or folder exists. Raises OSError where that cannot be
        determined.
        """
        try:
            os.stat(path)  # noqa: PTH116 - at every request, a fifth of Path.exists
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size_of(self, path: Path) -> int:
        """Return a file's size in bytes."""
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, in no particular order."""
        return os.listdir(folder)  # noqa: PTH208 - names, not paths

    def remove(self, path: Path) -> None:
        """Remove a file; a missing file is no error."""
        path.unlink(missing_ok=True)

    def replace(self, path: Path, target: Path) -> None:
        """Move a file atomically, replacing the target."""
        path.replace(target)

    def make_folder(self, path: Path, mode: int = 0o755) -> None:
        """Create a folder and missing folders above it."""
        path.mkdir(mode=mode, parents=True, exist_ok=True)


class ThreadEvent(Protocol):
    """An event like ``threading.ThreadEvent``."""

    def set(self) -> None:
        """Wake all threads that wait."""
        ...

    def clear(self) -> None:
        """Make later calls of ``wait`` block again."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set; return False where the timeout passed first."""
        ...


class Thread(Protocol):
    """A thread like ``threading.Thread``."""

    def start(self) -> None:
        """Start the thread."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread's end, or the timeout."""
        ...

    def is_alive(self) -> bool:
        """Return whether the thread has started and not ended."""
        ...


class HostThreads:
    """Creates threads that end with the process, and events."""

    def event(self) -> ThreadEvent:
        """Return a new event that is not set."""
        return threading.Event()

    def thread(self, name: str, run: Callable[[], None]) -> Thread:
        """Return a new thread that is not started."""
        return threading.Thread(target=run, name=name, daemon=True)


class Poll(Protocol):
    """A selector like ``select.epoll``."""

    def register(self, fd: int, eventmask: int, /) -> None:
        """Watch a descriptor for these events."""
        ...

    def modify(self, fd: int, eventmask: int, /) -> None:
        """Watch a descriptor for other events than before."""
        ...

    def poll(self, timeout: float | None, maxevents: int, /) -> list[tuple[int, int]]:
        """Return (descriptor, event mask) of the ready descriptors, after at most ``timeout``
        seconds.
        """
        ...

    def close(self) -> None:
        """Close the selector."""
        ...


class HostNetwork:
    """Selectors and helper descriptors for a loop over many sockets."""

    def poll(self) -> Poll:
        """Return a selector that watches nothing yet."""
        return select.epoll()

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two connected sockets; writing to one wakes a loop that watches the other."""
        return socket.socketpair()

    def spare(self) -> int:
        """Return a spare descriptor; closing it makes room when the process has no free descriptor
        left.
        """
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def give_up(self, descriptor: int) -> None:
        """Close the spare descriptor."""
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Host:
    """All services of one host, real or simulated."""

    clock: Clock = time
    files: Files = field(default_factory=Files)
    threads: HostThreads = field(default_factory=HostThreads)
    network: HostNetwork = field(default_factory=HostNetwork)
    pid: Callable[[], int] = os.getpid
    name: Callable[[], str] = socket.gethostname


HOST = Host()
"""The real host."""
