"""What an apply has begun, on disk before it is done: JSON lines, each flushed to the disk.

The GPUs themselves say how far the cutting went; the journal says from what to what, and which
way was taken. A torn last line (power loss while writing) is as if it had not been written.

Records: ``begin`` (both layouts, the scheduler's part), ``cut`` (the new layout was seen
complete), ``publish`` (the scheduler is being told; ``to`` is ``new`` or ``old``), ``back``
(turned back, with the reason), ``end`` (``outcome`` is ``new`` or ``old``). Others are for people.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from berth.pilot.errors import BerthError

Record = dict[str, Any]
NAME = "apply.journal"
MAX_BYTES = 64 * 1024 * 1024
KEPT = 32
CHANGES = ("destroy", "create")


class Journal:
    """The journal of one state folder; at most one apply is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / NAME

    def unfinished(self) -> list[Record]:
        """The records of an apply that has begun and not ended; empty: none."""
        records = list(self._records(self.path))
        if not records or records[0].get("kind") != "begin" or records[-1].get("kind") == "end":
            return []
        return records

    def last_cut_s(self) -> float | None:
        """When the layouts were last changed (Unix time); None: never, as far as is known."""
        history = sorted((self.folder / "history").glob("*.journal"), reverse=True)
        for path in [self.path, *history]:
            times = [r.get("at_s") for r in self._records(path) if r.get("kind") in CHANGES]
            if times:
                return max(float(t) for t in times if isinstance(t, int | float))
        return None

    def begin(self, record: Record) -> None:
        """Start a new journal; the finished one before it is kept by its number."""
        self._archive()
        self.append("begin", **record)
        self._sync_folder()

    def append(self, kind: str, **fields: Any) -> None:
        """Write one record and wait until the disk has it. Raises BerthError."""
        line = json.dumps({"kind": kind, "at_s": round(time.time(), 3), **fields}) + "\n"
        try:
            descriptor = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW,
                0o644,
            )  # fmt: skip
            try:
                self._write(descriptor, line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise BerthError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _write(self, descriptor: int, data: bytes) -> None:
        if self._torn_tail():
            data = b"\n" + data
        while data:
            data = data[os.write(descriptor, data) :]

    def _torn_tail(self) -> bool:
        raw = self.path.read_bytes()
        return bool(raw) and not raw.endswith(b"\n")

    def _records(self, path: Path) -> Iterator[Record]:
        try:
            with path.open("rb") as stream:
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
        if not self.path.exists():
            return
        history = self.folder / "history"
        try:
            history.mkdir(exist_ok=True)
            self.path.replace(history / f"{time.time_ns()}.journal")
            for old in sorted(history.glob("*.journal"))[:-KEPT]:
                old.unlink()
        except OSError as error:
            raise BerthError(f"{history}: cannot be written: {error.strerror}") from None

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
