"""One job with and without Berth: how the two may differ, whatever the scheduler is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

LOOKS = 2
"""How often a pair that differs is submitted again."""


@dataclass(frozen=True)
class Ask:
    """One job as a user submits it."""

    words: tuple[str, ...]
    command: str
    workload: str = "stream"

    @property
    def traits(self) -> tuple[str, ...]:
        """By what a report counts: the long options."""
        return tuple(word.partition("=")[0] for word in self.words if word.startswith("--"))

    def __str__(self) -> str:
        return " ".join((self.command, *self.words))


class Half(Protocol):
    """What became of one of the two submissions."""

    @property
    def accepted(self) -> bool: ...

    @property
    def message(self) -> str:
        """What the submitting command said."""

    @property
    def started(self) -> bool: ...

    @property
    def waits_for(self) -> str:
        """Why it has not started."""

    @property
    def hopeless(self) -> bool:
        """Whether what it waits for never comes."""

    @property
    def was_edited(self) -> bool: ...

    @property
    def code(self) -> str:
        """Berth's reason, by its code."""


HalfT = TypeVar("HalfT", bound=Half)
AskT = TypeVar("AskT", bound=Ask)


@dataclass
class Verdict(Generic[HalfT]):
    """One pair and how its halves differ; ``once``: what did not show again."""

    ask: Ask
    plain: HalfT
    placed: HalfT
    differences: list[str]
    once: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.ask}: {'; '.join(self.differences or self.once) or 'no difference'}"


def compared(plain: Half, placed: Half, of_the_place: re.Pattern[str]) -> list[str]:
    """What Berth broke of taking and starting the job; nothing where the promise held.

    ``of_the_place`` matches what the scheduler says to a job that it refuses in one place and
    takes in another: who asks Berth to choose may get a place that has what ``auto`` has not.
    """
    if plain.accepted and not placed.accepted:
        return [f"rejected: {placed.message.strip()[-200:]}"]
    if not plain.accepted:
        moved_to_fit = placed.was_edited and of_the_place.search(plain.message)
        if not placed.accepted or moved_to_fit:
            return []
        return [f"accepted, and refused as written: {plain.message.strip()[-200:]}"]
    if plain.started and not placed.started:
        return [f"does not start: {placed.waits_for}"]
    worse = plain.waits_for != placed.waits_for and (placed.hopeless or not plain.hopeless)
    # Two jobs that ask for the same: the second waits for the first as well (``Priority``).
    worse = worse and (placed.was_edited or placed.hopeless)
    if not plain.started and not placed.started and worse:
        return [f"waits for {placed.waits_for}, and as written for {plain.waits_for}"]
    return []


def judged_again(
    judge: Callable[[Sequence[AskT]], list[Verdict[HalfT]]], asks: Sequence[AskT]
) -> list[Verdict[HalfT]]:
    """``judge`` of all; a pair that differs is submitted again, alone, and counts if it differs.

    The halves of a pair are submitted at two moments among many other jobs. What follows from the
    moment (a deadline of now, a dependency on a job that just ended, nodes that others had) is no
    doing of Berth's and is gone when the pair is alone; it is kept in ``once`` and printed.
    """
    found = judge(asks)
    for verdict, ask in zip(found, asks, strict=True):
        if verdict.differences and not any(judge([ask])[0].differences for _ in range(LOOKS)):
            verdict.once, verdict.differences = verdict.differences, []
    return found
