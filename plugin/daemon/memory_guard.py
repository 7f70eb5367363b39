"""The state file of the helper that restores jobs' memory requests; the daemon reads it.

The daemon makes a memory request smaller only while the helper runs and can restore it. The file
holds the time of the helper's last round, and the jobs for which a smaller request was too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import TypeAdapter

from berth.pilot.errors import DocumentError
from berth.plugin.scheduler.helper_files import read_helper_file, write_helper_file

MOST_STOPPED = 5_000
_LEAST_PATIENCE_S = 120.0
_ROUNDS = 3.0


@dataclass(frozen=True, slots=True)
class Guard:
    """The helper's state at its last round."""

    alive_s: float = 0.0
    """Unix time of the helper's last round (s); 0: there is no helper."""
    every_s: float = 30.0
    requeue: bool = False
    """Whether the scheduler requeues jobs that do not say whether they may be requeued."""
    stopped: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Keys of jobs whose smaller request was too small, with the Unix time when this was found
    (s)."""
    schema: Literal["berth.memory-guard/1"] = "berth.memory-guard/1"

    def watches(self, now_s: float) -> bool:
        """Return whether the helper is running: its last round was recent."""
        return 0.0 <= now_s - self.alive_s < max(_LEAST_PATIENCE_S, _ROUNDS * self.every_s)


_FORM = TypeAdapter(Guard)


def load(path: Path) -> Guard:
    """Return the helper's state; a Guard without a helper where the file is absent. Raises
    DocumentError."""
    return read_helper_file(path, _FORM, Guard())


def load_or_nobody(path: Path) -> Guard:
    """Return the helper's state; a Guard without a helper where the file is absent or
    unreadable."""
    try:
        return load(path)
    except DocumentError:
        return Guard()


def store(path: Path, guard: Guard) -> None:
    """Write the helper's state to the file, with the newest ``MOST_STOPPED`` keys. Raises
    DocumentError."""
    newest = sorted(guard.stopped.items(), key=lambda stopped: stopped[1])[-MOST_STOPPED:]
    write_helper_file(path, _FORM, replace(guard, stopped=dict(newest)))


def beside(ruled_out: Path) -> Path:
    """Return the path of the helper's state file, in the folder of the list of ruled-out
    candidates."""
    return ruled_out.with_name("memory-guard.json")
