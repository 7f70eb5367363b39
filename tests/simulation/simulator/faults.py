"""Which call fails, and how: every point by name, drawn from the world's seed, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from random import Random


class Dead(BaseException):
    """The process that makes this call was killed. Not an Exception: nobody handles it."""


class Violation(AssertionError):
    """Something happened that must never happen."""


FILE_CALLS = {
    "open": ("fail", "die"),
    "lock": ("fail",),
    "write": ("fail", "short", "torn", "die", "slow"),
    "sync": ("fail", "slow", "die"),
    "close": ("fail",),
    "size": ("fail",),
    "pread": ("fail",),
    "leads_to": ("fail",),
    "truncate": ("fail", "die"),
    "reading": ("fail", "slow", "die"),
    "size_of": ("fail",),
    "names": ("fail",),
    "remove": ("fail", "die", "dieafter"),
    "exists": ("fail",),
}
_OF_FILES = {
    "journal": ("open", "lock", "write", "close", "reading", "remove", "names"),
    "spool": (
        "open", "lock", "write", "sync", "close", "size", "pread", "leads_to", "truncate",
        "reading", "size_of", "remove",
    ),
    "lock": ("open", "lock", "write", "truncate", "close"),
    "switch": ("exists",),
}  # fmt: skip
POINTS: dict[str, tuple[str, ...]] = {
    **{f"{role}.{call}": FILE_CALLS[call] for role, calls in _OF_FILES.items() for call in calls},
    "daemon.accept": ("exhausted", "aborted", "slow", "die"),
    "daemon.recv": ("fail", "short", "slow", "die"),
    "daemon.send": ("fail", "short", "full", "slow", "die", "dieafter"),
    "daemon.poll": ("slow", "spurious", "die"),
    "daemon.names": ("unknown",),
    "slurm.connect": ("refused", "slow"),
    "slurm.send": ("closed", "short"),
    "slurm.receive": ("closed", "short", "garbage", "slow"),
    "slurm.config": ("fail", "garbage"),
    "slurm.switch": ("fail",),
    "slurm.field": ("fail",),
    "store.begin": ("locked", "gone", "slow", "die"),
    "store.commit": ("full", "lost", "die", "dieafter"),
    "store.read": ("locked", "gone", "slow", "die"),
    "cluster.read": ("fail", "broken", "partial", "slow"),
    "scheduler.request": ("lost",),
    "scheduler.save": ("die", "dieafter"),
    "scheduler.reply": ("lost",),
    "weather.database": ("down",),
    "weather.disk": ("full",),
    "weather.daemon": ("term", "kill"),
    "weather.clock": ("jump",),
    "weather.site": ("edited",),
    "weather.partition": ("changed",),
    "weather.switch": ("thrown",),
    "weather.socket": ("removed",),
    "weather.prune": ("run",),
}
_LAST = ("die", "dieafter", "torn")
_RARELY = 0.1
"""How often a process dies, beside one of the other faults of a call."""
_AIMED = 0.3
"""How often a call fails that a world is to make fail."""


class Faults:
    """Of one world. A few points are in focus: they fail often, so that rare ways are gone."""

    def __init__(self, random: Random, focus: Mapping[str, str] | None = None) -> None:
        self._random = random
        self.on = True
        self.counts: Counter[tuple[str, str]] = Counter()
        pairs = [(point, kind) for point, kinds in POINTS.items() for kind in kinds]
        self._aimed = dict(focus or {})
        self._focus = dict(random.sample(pairs, 14)) | self._aimed
        self._often = random.choice((0.02, 0.1, 0.4))
        self._every = random.choice((150.0, 400.0, 1_500.0))
        self._left = self._next()

    def at(self, point: str) -> str | None:
        """What goes wrong with this call; None: nothing."""
        if not self.on:
            return None
        kind = self._aimed.get(point)
        if kind is not None and self._random.random() < _AIMED:
            self.counts[point, kind] += 1
            return kind
        kind = self._focus.get(point)
        if kind is None or self._random.random() >= self._often:
            self._left -= 1
            if self._left > 0:
                return None
            self._left = self._next()
            kinds = POINTS[point]
            kind = self._random.choice(kinds)
            if kind in _LAST and self._random.random() > _RARELY:
                kind = kinds[0]
                if kind in _LAST:
                    return None
        elif kind in _LAST and self._random.random() > 2 * _RARELY:
            return None
        self.counts[point, kind] += 1
        return kind

    def met(self, point: str, kind: str) -> None:
        """Count what was done on purpose."""
        self.counts[point, kind] += 1

    def focused(self, point: str) -> bool:
        """Whether a kind of trouble is frequent in this world."""
        return point in self._focus

    def _next(self) -> int:
        return 1 + int(-math.log(1.0 - self._random.random()) * self._every)
