"""What a filter reports of its circuit breaker, once the daemon answers it again.

While a breaker is open its filter asks nothing, so the daemon hears of it only afterwards: each
question names how many submissions went by without an answer since the last one, and when that
began. The same streak may be reported more than once (an answer came too late); it is counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from berth.pilot.bounded import BoundedCache

MOST_SUBMISSIONS = 10**9
"""More than these in one streak are counted as these."""
_LATEST_MS = 2**53
_STREAKS = 256


class Streak(NamedTuple):
    """Submissions in a row without an answer of the daemon."""

    undecided: int
    since_ms: int
    """Unix time of the first of them."""
    opened: bool
    """The breaker opened meanwhile; False: a few failures that were too few for that."""


def streak_in(value: Any) -> Streak | None:
    """Return what ``breaker`` of a request holds; None: absent, or not as it should be.

    Nothing is refused for it: the job is decided all the same.
    """
    if type(value) is not dict:
        return None
    undecided, since_ms = _whole(value.get("undecided")), _whole(value.get("since_ms"))
    if not undecided or since_ms is None or since_ms > _LATEST_MS:
        return None
    return Streak(min(undecided, MOST_SUBMISSIONS), since_ms, _whole(value.get("opened")) == 1)


def _whole(value: Any) -> int | None:
    if type(value) is float and value.is_integer():  # Lua has one kind of number
        value = int(value)
    return value if type(value) is int and value >= 0 else None


class Breakers:
    """The filters' breakers by scheduler, as far as they were reported."""

    def __init__(self) -> None:
        self._openings: Counter[str] = Counter()
        self._undecided: Counter[str] = Counter()
        self._last: dict[str, tuple[float, float]] = {}
        self._known: BoundedCache[tuple[str, int], Streak] = BoundedCache(_STREAKS)

    def reported(self, scheduler: str, streak: Streak, now_s: float) -> None:
        """Count what is new in a report. ``now_s``: Unix time."""
        of = (scheduler, streak.since_ms)
        before = self._known.get(of) or Streak(0, streak.since_ms, opened=False)
        if streak.undecided > before.undecided:
            self._undecided[scheduler] += streak.undecided - before.undecided
            self._known.put(of, streak._replace(opened=streak.opened or before.opened))
        if streak.opened and not before.opened:
            self._openings[scheduler] += 1
        self._last[scheduler] = now_s, max(0.0, now_s - streak.since_ms / 1000)

    def summary(self, schedulers: Iterable[str]) -> dict[str, dict[str, float | None]]:
        """Return the figures by scheduler; nothing reported: zeros and None."""
        return {
            name: {
                "openings": self._openings[name],
                "undecided": self._undecided[name],
                "reported_s": self._last[name][0] if name in self._last else None,
                "lasted_s": round(self._last[name][1], 3) if name in self._last else None,
            }
            for name in schedulers
        }
