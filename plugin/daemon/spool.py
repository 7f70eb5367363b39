"""A file beside the store for decisions that could not be stored, until the store works again.

One JSON object per line, appended and synced to disk; lines are read back in batches, and the file
is removed once all are stored. An unreadable line (cut off by a power failure) goes to ``*.bad``.
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
    """Return the spool's path beside the SQLite file, or beside the socket for another database."""
    beside = site.daemon.socket if database.path is None else database.path
    return beside.with_name(beside.name + ".spool.jsonl")


class Spool:
    """An append-only file of decision records, at most ``max_bytes`` long.

    Several daemons on one host may share the file; each locks it while using it.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = 256 * 1024 * 1024, files: Files = HOST.files
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._files = files

    def append(self, records: Sequence[DecisionRecord]) -> None:
        """Append all records to the spool. Raises OSError (disk or spool full); then no record was
        written.
        """
        data = "".join(
            json.dumps(dataclasses.asdict(record), separators=(",", ":")) + "\n"
            for record in records
        ).encode()
        with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as handle:
            before = self._files.size(handle)
            if before + len(data) > self._max_bytes:
                raise OSError(errno.ENOSPC, f"{self.path} has reached {self._max_bytes} bytes")
            if before and self._files.pread(handle, 1, before - 1) != b"\n":
                data = b"\n" + data  # another writer's line was cut off
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
        """Return whether the spool holds anything to store."""
        try:
            return self._files.size_of(self.path) > 0
        except OSError:
            return False

    def drain(self, store: Callable[[Sequence[DecisionRecord]], None]) -> int:
        """Pass all records to ``store`` in batches, then remove the file; return their number.

        Exceptions of ``store`` pass through, and the file stays. Records are stored by id, so
        passing one twice is harmless.
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
        """Open and lock the spool file. Raises OSError where another daemon is using it."""
        handle = self._files.open(self.path, flags)
        try:
            self._files.lock(handle)
            if not self._files.leads_to(self.path, handle):  # stored and removed meanwhile
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
        return DecisionRecord(**{key: data[key] for key in _FIELDS if key in data})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
