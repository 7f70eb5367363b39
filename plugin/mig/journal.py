"""The applier's state folder: the lock that one apply holds, and the journal of its steps.

The lock is a file lock, which ends with its process in every case.

The journal records each step before it is done: JSON lines, each flushed to disk. The GPUs
themselves show how far repartitioning got; the journal tells the old and the new layout and whether
the apply turned back. A truncated last line (power loss while writing) counts as not written.

Records: ``begin`` (both layouts, the scheduler's notice), ``cut`` (the new layout was seen
complete), ``publish`` (publishing to the scheduler begins; ``to`` is ``new`` or ``old``), ``back``
(turned back, with the reason), ``end`` (``outcome`` is ``new`` or ``old``). Other records are for
administrators only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError
from berth.plugin.host import HOST, Files, Host
from berth.plugin.mig.errors import Locked

Record = dict[str, Any]
NAME = "apply.journal"
MAX_BYTES = 64 * 1024 * 1024
KEPT = 32
CHANGES = ("destroy", "create")


@contextlib.contextmanager
def applier_lock(folder: Path, *, host: Host = HOST) -> Iterator[None]:
    """Hold the lock of this state folder. Raises Locked naming the process that holds it."""
    path, files = folder / "lock", host.files
    try:
        files.make_folder(folder)
        descriptor = files.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise BerthError(
            f"{path}: cannot be opened: {error.strerror}",
            hint="cutting GPUs needs root, or Berth's helper (docs/mig-apply.md): its lock and "
            "journal are there",
        ) from None
    try:
        try:
            files.lock(descriptor)
        except BlockingIOError:
            raise _locked(files, descriptor) from None
        except OSError as error:
            raise BerthError(f"{path}: cannot be locked: {error.strerror}") from None
        with contextlib.suppress(OSError):  # the process id is for messages only
            files.truncate(descriptor, 0)
            files.write(descriptor, f"{host.pid()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            files.close(descriptor)


def refuse_while_locked(folder: Path, *, host: Host = HOST) -> None:
    """Raise Locked where a process holds the lock of this state folder; do nothing where it is
    unreadable."""
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


class ApplyJournal:
    """The journal of one state folder, for at most one apply at a time."""

    def __init__(self, folder: Path, *, host: Host = HOST) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._clock, self._files = host.clock, host.files

    def unfinished(self) -> list[Record]:
        """Return the records of an apply that has begun and not ended; empty: none."""
        records = list(self._records(self.path))
        if not records or records[0].get("kind") != "begin" or records[-1].get("kind") == "end":
            return []
        return records

    def interruption(self) -> str | None:
        """Return a sentence on an apply that has begun and not ended; None: there is none, or the
        journal cannot be read."""
        with suppress(BerthError):
            if self.unfinished():
                return (
                    "An apply has begun and not ended. If none is at work now, it was "
                    "interrupted: `berth mig apply --resume` ends it"
                )
        return None

    def last_cut_s(self) -> float | None:
        """Return the Unix time at which MIG instances were last changed; None: no change is
        recorded."""
        for path in [self.path, *reversed(self._history())]:
            times = [r.get("at_s") for r in self._records(path) if r.get("kind") in CHANGES]
            if times:
                return max(float(t) for t in times if isinstance(t, int | float))
        return None

    def last_new(self) -> Record | None:
        """Return the first record of the last apply that reached its new layout; None: none did."""
        for path in [self.path, *reversed(self._history())]:
            records = list(self._records(path))
            if records and (records[-1].get("kind"), records[-1].get("outcome")) == ("end", "new"):
                return records[0]
        return None

    def begin(self, record: Record) -> None:
        """Start a new journal with this first record; the journal before it is archived. Raises
        BerthError."""
        self._archive()
        self.append("begin", **record)
        try:
            self._sync(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BerthError(f"{self.folder}: cannot be written: {error.strerror}") from None

    def append(self, kind: str, **fields: Any) -> None:
        """Write one record and wait until it is on disk. Raises BerthError."""
        line = json.dumps({"kind": kind, "at_s": round(self._clock.time(), 3), **fields}) + "\n"
        try:
            self._sync(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, line.encode())
        except OSError as error:
            raise BerthError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _sync(self, path: Path, flags: int, data: bytes = b"") -> None:
        """Append ``data`` to a file and wait until it is on disk."""
        descriptor = self._files.open(path, flags, 0o644)
        try:
            size = self._files.size(descriptor) if data else 0
            if size and self._files.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # after a torn line
            while data:
                data = data[self._files.write(descriptor, data) :]
            self._files.sync(descriptor)
        finally:
            with suppress(OSError):
                self._files.close(descriptor)

    def _records(self, path: Path) -> Iterator[Record]:
        try:
            with self._files.reading(path) as stream:
                raw = stream.read(MAX_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise BerthError(f"{path}: cannot be read: {error.strerror}") from None
        for line in raw.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # a torn line: its step had not begun
            if isinstance(record, dict):
                yield record

    def _archive(self) -> None:
        folder = self.folder / "history"
        try:
            if not self._files.exists(self.path):
                return
            self._files.make_folder(folder)
            self._files.replace(self.path, folder / f"{self._clock.time_ns()}.journal")
            for old in self._history()[:-KEPT]:
                self._files.remove(old)
        except OSError as error:
            raise BerthError(f"{folder}: cannot be written: {error.strerror}") from None

    def _history(self) -> list[Path]:
        """Return the paths of the archived journals, oldest first."""
        folder = self.folder / "history"
        try:
            names = self._files.names(folder)
        except OSError:
            return []
        return [folder / name for name in sorted(names) if name.endswith(".journal")]
