"""Read users' model files through an unprivileged child process that serves many files.

``read_graph`` opens the file with the caller's own rights and passes the child the open file
descriptor, not a path. A child that dies, hangs or returns invalid data causes one DocumentError;
the next file gets a new child.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from berth.pilot.errors import BerthError, DocumentError
from berth.predictor.graphs.child import CONVERT
from berth.predictor.graphs.graph import MalformedGraph, ModelGraph, decode
from berth.predictor.graphs.limits import LIMITS, FileLimits

LARGEST_REPLY = 64 * 2**20
LARGEST_BATCH = 2**20
_FILES_BEFORE_RENEWAL = 10_000
_START_S = 30.0
_READY = b"r"
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_CONVERTER_BYTES = 2**31
"""Largest address space of a child that converts: the onnx library itself needs most of it."""
_PROGRAM = "from berth.predictor.graphs.child import main; main()"


class ModelReader:
    """Reads model files through one child process, which it starts at the first file.

    A ModelReader may be shared between threads. ``close`` it, or use it with ``with``.
    """

    def __init__(self, limits: FileLimits = LIMITS) -> None:
        self.limits = limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._files = 0
        self._converts = False
        self._owner = os.getpid()

    def __enter__(self) -> ModelReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(
        self, path: Path, *, batch: int | None = None, sizes: Mapping[str, int] | None = None
    ) -> ModelGraph:
        """Return the graph in an ONNX file at a batch size (default: 1, or the file's fixed batch).

        ``sizes`` sets other open dimensions by name. Raises DocumentError.
        """
        check_sizes(path, batch, sizes)
        handle = open_plain(path)
        try:
            return self.read_open(handle, source=path, batch=batch, sizes=sizes)
        finally:
            os.close(handle)

    def read_open(
        self,
        handle: int,
        *,
        source: Path | str,
        batch: int | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> ModelGraph:
        """Return the graph in an ONNX file that is already open; see ``read``.

        ``source`` names the file in error messages. Raises DocumentError.
        """
        request = json.dumps({"batch": batch, "sizes": dict(sizes or {})}).encode()
        with self._lock:
            kind, body = self._ask(request, handle, source)
            if kind == b"o" and find_spec("onnx") is not None:
                kind, body = self._ask(request, handle, source, converts=True)
                self._end()  # the next file gets a child without the library again
        if kind in (b"e", b"o"):
            problem, hint = _refusal(body)
            raise DocumentError(source, problem, hint=hint)
        try:
            return decode(body)
        except MalformedGraph:
            raise DocumentError(source, "made its reader answer nonsense") from None

    def close(self) -> None:
        """End the child process; after a fork, only the process that started it does so."""
        with self._lock:
            if self._owner == os.getpid():
                self._end()
            else:
                self._forget()

    @property
    def child(self) -> int | None:
        """Return the process id of the child process; None before it is started."""
        return self._process.pid if self._process else None

    def _ask(
        self, request: bytes, handle: int, source: Path | str, *, converts: bool = False
    ) -> tuple[bytes, bytes]:
        if self._files >= _FILES_BEFORE_RENEWAL or converts != self._converts:
            self._end()
        self._converts = converts
        channel = self._start()
        self._files += 1
        deadline = time.monotonic() + self.limits.wait_s
        try:
            socket.send_fds(channel, [request], [handle])
            head = _receive(channel, 9, deadline)
            size = int.from_bytes(head[1:], "little")
            if head[:1] not in (b"g", b"e", b"o") or size > LARGEST_REPLY:
                raise ConnectionError
            return head[:1], _receive(channel, size, deadline)
        except TimeoutError:
            self._end()
            raise DocumentError(
                source,
                f"could not be read within {self.limits.wait_s:g} s: the machine is busy",
                hint="try again when it is less busy",
            ) from None
        except OSError:
            self._end()
            raise DocumentError(
                source, "made its reader fail; it needs more time or memory than is allowed"
            ) from None

    def _start(self) -> socket.socket:
        if self._owner != os.getpid():
            self._forget()  # forked: the child belongs to the other process
        if self._channel is not None and self._process is not None and self._process.poll() is None:
            return self._channel
        self._end()
        mine, its = socket.socketpair()
        with its:
            # No shell, no user site-packages (-I), and only the loader's paths as environment.
            path = [entry for entry in sys.path if entry]
            self._process = subprocess.Popen(
                [
                    sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {_PROGRAM}",
                    json.dumps(asdict(self._child_limits())),
                    *([CONVERT] if self._converts else ()),
                ],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ}
                | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self._channel = mine
        self._files = 0
        try:
            if _receive(mine, 1, time.monotonic() + _START_S) == _READY:
                return mine
        except OSError:
            pass
        self._end()
        raise BerthError(
            "the process that reads model files could not start",
            hint=f"try: {sys.executable} -I -c '{_PROGRAM}'",
        )

    def _child_limits(self) -> FileLimits:
        if not self._converts:
            return self.limits
        return replace(self.limits, memory_bytes=max(self.limits.memory_bytes, _CONVERTER_BYTES))

    def _forget(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._process = None
        self._owner = os.getpid()

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._channel = self._process = None


def _receive(channel: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        count = channel.recv_into(view[got:])
        if count == 0:
            raise ConnectionError
        got += count
    return bytes(data)


def _refusal(body: bytes) -> tuple[str, str | None]:
    try:
        problem, hint = json.loads(body)
    except ValueError:
        return "made its reader answer nonsense", None
    return str(problem)[:1000], None if hint is None else str(hint)[:1000]


def check_sizes(path: Path | str, batch: int | None, sizes: Mapping[str, int] | None) -> None:
    """Raise DocumentError unless the batch size and all dimensions are within their bounds."""
    if batch is not None and not 1 <= batch <= LARGEST_BATCH:
        raise DocumentError(path, f"batch {batch} is not between 1 and {LARGEST_BATCH}")
    for name, size in (sizes or {}).items():
        if not 1 <= size <= 2**31:
            raise DocumentError(path, f"dimension {name} is {size}; it must be at least 1")


def open_plain(path: Path) -> int:
    """Return a read-only file descriptor of a regular file.

    Raises DocumentError for other files; opening a named pipe does not block.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise DocumentError(path, "does not exist") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DocumentError(path, f"cannot be read: {reason}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DocumentError(path, "is not a regular file")
    return handle


_shared: ModelReader | None = None
_sharing = threading.Lock()


def shared() -> ModelReader:
    """Return the ModelReader that this process shares, created at the first call."""
    global _shared  # noqa: PLW0603 - one child a process is the point
    with _sharing:
        if _shared is None:
            _shared = ModelReader()
            atexit.register(_shared.close)
        return _shared


def read_graph(
    path: Path, *, batch: int | None = None, sizes: Mapping[str, int] | None = None
) -> ModelGraph:
    """Return the graph of an ONNX file at a batch size.

    ``sizes`` sets other open dimensions by name. Raises DocumentError for a file that cannot be
    read.
    """
    return shared().read(Path(path), batch=batch, sizes=sizes)
