"""Places that jobs were put back from, in one small file: the helper writes, the daemon reads."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

from berth.pilot.documents import write_text
from berth.pilot.errors import DocumentError
from berth.plugin.scheduler.states import Reading, ReadStates
from berth.policies.values import RuledOut

MAX_BYTES = 1_000_000
MOST = 1_000
"""Entries; the oldest go first."""

__all__ = ["RuledOut", "add", "clear", "load", "with_ruled_out"]


def load(path: Path) -> tuple[RuledOut, ...]:
    """Return the candidates that are ruled out; none where there is no file. Raises
    DocumentError."""
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise DocumentError(str(path), "is no plain file")
            text = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise DocumentError(str(path), f"cannot be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise DocumentError(str(path), f"is larger than {MAX_BYTES} bytes")
    try:
        rows = json.loads(text)
        return tuple(
            RuledOut(
                str(r["candidate"]),
                str(r["user"]),
                str(r["workload"]),
                str(r["reason"]),
                str(r["job"]),
                float(r["since_s"]),
            )
            for r in rows
        )
    except (ValueError, TypeError, KeyError) as error:
        raise DocumentError(
            str(path), f"is not what `berth site slurm putback` writes: {error}"
        ) from None


def add(path: Path, entry: RuledOut) -> None:
    """Write one more down. Raises DocumentError."""
    others = [r for r in load(path) if _key(r) != _key(entry)]
    _write(path, [*others, entry][-MOST:])


def clear(path: Path, candidate: str | None) -> int:
    """Forget those of ``candidate`` (None: all); how many there were. Raises DocumentError."""
    before = load(path)
    left = [r for r in before if candidate is not None and r.candidate != candidate]
    if len(left) != len(before):
        _write(path, left)
    return len(before) - len(left)


def with_ruled_out(read: ReadStates, path: Path) -> ReadStates:
    """Return a reader of states that knows which candidates are ruled out."""

    def both() -> Reading:
        reading, entries = read(), load(path)
        if not entries:
            return reading
        states = {
            name: replace(state, ruled_out=tuple(r for r in entries if r.candidate == name))
            for name, state in reading.states.items()
        }
        return replace(reading, states=MappingProxyType(states))

    return both


def _key(entry: RuledOut) -> tuple[str, str, str]:
    return entry.candidate, entry.user, entry.workload


def _write(path: Path, entries: Iterable[RuledOut]) -> None:
    text = json.dumps([asdict(entry) for entry in entries], indent=1) + "\n"
    try:
        write_text(path, text, mode=0o644)
    except OSError as error:
        raise DocumentError(str(path), f"cannot be written: {error.strerror}") from None
