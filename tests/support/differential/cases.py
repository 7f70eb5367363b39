"""A job that Berth once broke, whatever the scheduler is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

WorldT = TypeVar("WorldT")
CaseT = TypeVar("CaseT", bound="Broken")


@dataclass(frozen=True)
class Broken(Generic[WorldT]):
    """One job, where it broke, and whether it goes to a GPU (None: either)."""

    name: str
    world: WorldT
    words: tuple[str, ...]
    to_gpu: bool | None = None
    workload: str = "stream"


def cases(
    kind: type[CaseT], world: object, *rows: tuple[str, str, bool | None]
) -> tuple[CaseT, ...]:
    """Cases of one world: name, options in a line, whether it goes to a GPU."""
    return tuple(kind(name, world, tuple(words.split()), to_gpu) for name, words, to_gpu in rows)
