"""Decisions that the store could not take, kept in a file beside it until it can.

One JSON object a line, appended and synced; read back in batches and removed once stored. A line
that cannot be read (a power cut in mid-write) is set aside in ``*.bad``, never lost.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from berth.plugin.host import HOST, Files
from berth.plugin.site.site import Site
from berth.plugin.store.database import Database
from berth.plugin.store.records import DecisionRecord

_BATCH = 1_000
_FIELDS = {field.name for field in dataclasses.fields(DecisionRecord)}


def spool_path(site: Site, database: Database) -> Path:
    """Return a path beside the SQLite file, or beside the socket where the store is elsewhere."""
    beside = site.daemon.socket if database.path is None else database.path
    return beside.with_name(beside.name + ".spool.jsonl")


class Spool:
    """An append-only file of decision records, at most ``max_bytes`` long.

    Several daemons of one host may share it: who works on it has its lock.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = 256 * 1024 * 1024, files: Files = HOST.files
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._files = files

    def append(self, records: Sequence[DecisionRecord]) -> None:
        """Write the records. Raises OSError (disk full, or the spool is), having written none."""
        data = "".join(
            json.dumps(dataclasses.asdict(record), separators=(",", ":")) + "\n"
            for record in records
        ).encode()
        with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as handle:
            before = self._files.size(handle)
            if before + len(data) > self._max_bytes:
                raise OSError(errno.ENOSPC, f"{self.path} has reached {self._max_bytes} bytes")
            if before and self._files.pread(handle, 1, before - 1) != b"\n":
                data = b"\n" + data  # a line was cut off: it is none of ours
            try:
                if self._files.write(handle, data) != len(data):
                    raise OSError(errno.ENOSPC, f"no space for {len(data)} bytes in {self.path}")
                self._files.sync(handle)
            except OSError:
                with suppress(OSError):
                    self._files.truncate(handle, before)
                raise

    @property
    def waiting(self) -> bool:
        """Return whether there is something to bring into the store."""
        try:
            return self._files.size_of(self.path) > 0
        except OSError:
            return False

    def drain(self, store: Callable[[Sequence[DecisionRecord]], None]) -> int:
        """Hand all records to ``store`` in batches, then remove the file; gives their number.

        What ``store`` raises comes out, and the file stays: records are stored by their id, so
        that handing one over twice does no harm.
        """
        batch: list[DecisionRecord] = []
        unread: list[bytes] = []
        count = 0
        with self._locked(os.O_RDWR), self._files.reading(self.path) as stream:
            for line in stream:
                record = _read(line)
                if record is None:
                    unread.append(line)
                    continue
                batch.append(record)
                count += 1
                if len(batch) >= _BATCH:
                    store(batch)
                    batch = []
            if batch:
                store(batch)
            self._set_aside([line for line in unread if line.strip()])
            self._files.remove(self.path)
        return count

    @contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        """Open the file for us alone. Raises OSError where another daemon is at work on it."""
        handle = self._files.open(self.path, flags)
        try:
            self._files.lock(handle)
            if not self._files.leads_to(self.path, handle):  # brought in and removed just now
                raise BlockingIOError(errno.EWOULDBLOCK, f"{self.path} was removed meanwhile")
            yield handle
        finally:
            with suppress(OSError):
                self._files.close(handle)

    def _set_aside(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        data = b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)
        aside = self.path.with_name(self.path.name + ".bad")
        handle = self._files.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if self._files.write(handle, data) != len(data):
                raise OSError(errno.ENOSPC, f"no space for {len(data)} bytes in {aside}")
        finally:
            with suppress(OSError):
                self._files.close(handle)


def _read(line: bytes) -> DecisionRecord | None:
    try:
        data = json.loads(line)
        return DecisionRecord(**{key: data[key] for key in _FIELDS})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
