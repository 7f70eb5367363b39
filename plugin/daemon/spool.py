"""Decisions that the store could not take, kept in a file beside it until it can.

One JSON object a line, appended and synced; read back in batches and removed once stored. A line
that cannot be read (a power cut in mid-write) is set aside in ``*.bad``, never lost.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from berth.plugin.store.records import DecisionRecord

_BATCH = 1_000
_FIELDS = {field.name for field in dataclasses.fields(DecisionRecord)}


class Spool:
    """An append-only file of decision records, at most ``max_bytes`` long."""

    def __init__(self, path: Path, *, max_bytes: int = 256 * 1024 * 1024) -> None:
        self.path = path
        self._max_bytes = max_bytes

    def append(self, records: Sequence[DecisionRecord]) -> None:
        """Write the records. Raises OSError (disk full, or the spool is), having written none."""
        data = "".join(
            json.dumps(dataclasses.asdict(record), separators=(",", ":")) + "\n"
            for record in records
        ).encode()
        handle = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            before = os.fstat(handle).st_size
            if before + len(data) > self._max_bytes:
                raise OSError(f"{self.path} has reached {self._max_bytes} bytes")
            try:
                if os.write(handle, data) != len(data):
                    raise OSError(f"no space for {len(data)} bytes in {self.path}")
                os.fdatasync(handle)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)

    @property
    def waiting(self) -> bool:
        """True while there is something to bring into the store."""
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False

    def drain(self, store: Callable[[Sequence[DecisionRecord]], None]) -> int:
        """Hand all records to ``store`` in batches, then remove the file; gives their number.

        What ``store`` raises comes out, and the file stays: records are stored by their id, so
        that handing one over twice does no harm.
        """
        batch: list[DecisionRecord] = []
        count = 0
        with self.path.open("rb") as stream:
            for line in stream:
                record = _read(line)
                if record is None:
                    self._set_aside(line)
                    continue
                batch.append(record)
                count += 1
                if len(batch) >= _BATCH:
                    store(batch)
                    batch = []
        if batch:
            store(batch)
        self.path.unlink()
        return count

    def _set_aside(self, line: bytes) -> None:
        aside = self.path.with_name(self.path.name + ".bad")
        handle = os.open(
            aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(handle, "ab") as stream:
            stream.write(line if line.endswith(b"\n") else line + b"\n")


def _read(line: bytes) -> DecisionRecord | None:
    try:
        data = json.loads(line)
        return DecisionRecord(**{key: data[key] for key in _FIELDS})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
