"""What the helper that gives jobs their memory back tells the daemon, in one small file.

The daemon makes a memory request smaller only while somebody is there to put it right: the helper
says when it looked last, and for which jobs a smaller request was too small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from berth.pilot.documents import write_text
from berth.pilot.errors import DocumentError

SCHEMA = "berth.memory-guard/1"
MAX_BYTES = 1_000_000
MOST_STOPPED = 5_000
_LEAST_PATIENCE_S = 120.0
_ROUNDS = 3.0


@dataclass(frozen=True, slots=True)
class Guard:
    """The helper's last word."""

    alive_s: float = 0.0
    """Unix time of its last round; 0: there is no helper."""
    every_s: float = 30.0
    requeue: bool = False
    """Whether the scheduler lets jobs that say nothing of it run twice."""
    stopped: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Keys of jobs whose smaller request was too small, with the Unix time of it."""

    def watches(self, now_s: float) -> bool:
        """Return whether the helper is at work."""
        return 0.0 <= now_s - self.alive_s < max(_LEAST_PATIENCE_S, _ROUNDS * self.every_s)


def load(path: Path) -> Guard:
    """Return what the file says; nobody watches where there is no file. Raises DocumentError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Guard()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    try:
        read = json.loads(text[:MAX_BYTES])
        if read["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        return Guard(
            float(read["alive_s"]),
            float(read["every_s"]),
            read["requeue"] is True,
            {str(key): float(value) for key, value in read["stopped"].items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DocumentError(
            path, f"is not what `berth site slurm putback` writes: {error}"
        ) from None


def load_or_nobody(path: Path) -> Guard:
    """Return what the file says; nobody watches where it cannot be read."""
    try:
        return load(path)
    except DocumentError:
        return Guard()


def store(path: Path, guard: Guard) -> None:
    """Write it. Raises DocumentError."""
    newest = sorted(guard.stopped.items(), key=lambda stopped: stopped[1])[-MOST_STOPPED:]
    text = json.dumps(
        {
            "schema": SCHEMA,
            "alive_s": guard.alive_s,
            "every_s": guard.every_s,
            "requeue": guard.requeue,
            "stopped": dict(newest),
        }
    )
    try:
        write_text(path, text + "\n", mode=0o644)
    except OSError as error:
        raise DocumentError(path, f"cannot be written: {error.strerror}") from None


def beside(ruled_out: Path) -> Path:
    """Return the guard's file, which is beside the list of ruled out candidates."""
    return ruled_out.with_name("memory-guard.json")
