"""Candidates that are ruled out because jobs could not start there and had their requests restored.

The list is a small file that the restoring helper writes and the daemon reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter

from berth.plugin.scheduler.helper_files import read_helper_file, write_helper_file
from berth.plugin.scheduler.states import ReadStates, StatesReading
from berth.policies.values import RuledOut

MOST = 1_000
"""Maximum number of entries; the oldest are dropped first."""
_FORM = TypeAdapter(tuple[RuledOut, ...])

__all__ = ["RuledOut", "add", "clear", "load", "with_ruled_out"]


def load(path: Path) -> tuple[RuledOut, ...]:
    """Return the ruled-out candidates; empty where the file is absent. Raises DocumentError."""
    return read_helper_file(path, _FORM, ())


def add(path: Path, entry: RuledOut) -> None:
    """Add a ruled-out candidate, replacing an entry for the same candidate, user and workload.

    Raises DocumentError.
    """
    others = [r for r in load(path) if _key(r) != _key(entry)]
    write_helper_file(path, _FORM, tuple([*others, entry][-MOST:]))


def clear(path: Path, candidate: str | None) -> int:
    """Remove the ruled-out entries of ``candidate`` (None: all); return their number.

    Raises DocumentError.
    """
    before = load(path)
    left = [r for r in before if candidate is not None and r.candidate != candidate]
    if len(left) != len(before):
        write_helper_file(path, _FORM, tuple(left))
    return len(before) - len(left)


def with_ruled_out(
    read: ReadStates, present_entries: Callable[[], tuple[RuledOut, ...]]
) -> ReadStates:
    """Return a function that calls ``read`` and adds the present ruled-out entries to its
    states.
    """

    def both() -> StatesReading:
        reading, entries = read(), present_entries()
        if not entries:
            return reading
        states = {
            name: replace(
                state,
                ruled_out=(*state.ruled_out, *(r for r in entries if r.candidate == name)),
            )
            for name, state in reading.states.items()
        }
        return replace(reading, states=MappingProxyType(states))

    return both


def _key(entry: RuledOut) -> tuple[str, str, str]:
    return entry.candidate, entry.user, entry.workload
