"""Answers as they were made, and those to be given again.

Who submits the same script from many folders, or in a loop, sends the same line each time: while
nothing that its answer follows from has changed, it differs in the decision's name alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from berth.pilot.bounded import BoundedCache
from berth.plugin.daemon import replies
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import SiteView, Snapshot
from berth.plugin.history.matching import Described
from berth.plugin.host import HOST, Clock
from berth.policies.values import Decision, Mode, Request

_MOST = 512
_LONGEST = 16_384
"""Bytes of a line that is remembered: 8 MiB in all."""


@dataclass(slots=True)
class Answered:
    """One decision as it was made, for the recorder to write down later."""

    id: str
    time_s: float
    scheduler: str
    mode: Mode
    action: str
    code: str
    reason: str
    request: Request
    decision: Decision | None
    changes: replies.Edits
    latency_us: int
    what: Described | None = None
    """The job's program, where it names no workload: its outcome teaches of such jobs."""

    def again(self, name: str, time_s: float, latency_us: int) -> Answered:
        """The same, made anew at another moment: a fifth of ``dataclasses.replace``."""
        return Answered(
            name,
            time_s,
            self.scheduler,
            self.mode,
            self.action,
            self.code,
            self.reason,
            self.request,
            self.decision,
            self.changes,
            latency_us,
            self.what,
        )


class Present(NamedTuple):
    """All that an answer follows from beside its request."""

    site: SiteView
    shelf: Shelf
    snapshot: Snapshot


class Repeat(NamedTuple):
    """What was answered; holds until a state grows stale."""

    until_s: float
    answered: Answered
    reply: bytes


class Repeats:
    """The newest answers by their request, of one present."""

    def __init__(self, clock: Clock = HOST.clock) -> None:
        self._clock = clock
        self._present: Present | None = None
        self._known: BoundedCache[bytes, Repeat] = BoundedCache(_MOST)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, line: bytes, present: Present) -> Repeat | None:
        """What was answered to the same line; None where that may be another answer now."""
        known = self._known.get(line) if _is_same(self._present, present) else None
        if known is None:
            return None
        now_s = present.snapshot.now_s(self._clock.monotonic())
        return known if now_s <= known.until_s else None

    def put(self, line: bytes, present: Present, repeat: Repeat) -> None:
        """Remember an answer, the newest to its line in this present.

        Those of an earlier present are forgotten: none is given again, and each would keep its
        shelf, with all forecasts that are unpacked there, in memory.
        """
        if not _is_same(self._present, present):
            self._known.clear()
            self._present = present
        if len(line) <= _LONGEST:
            self._known.put(line, repeat)


def _is_same(one: Present | None, other: Present) -> bool:
    return (
        one is not None
        and one.site is other.site
        and one.shelf is other.shelf
        and one.snapshot is other.snapshot
    )
