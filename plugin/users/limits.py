"""How much one user, and all users together, may ask at once and in a minute."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the users' socket."""

    connections: int = 32
    """Of all users at a time."""
    connections_per_user: int = 4
    requests_per_minute: float = 120.0
    """Of one user, in the long run."""
    burst: int = 60
    """Requests of one user that may come at once."""
    request_bytes: int = 8 * 1024 * 1024
    request_s: float = 10.0
    """A request must be whole within this time; so must its reply be read."""


class Gate:
    """Admits connections by uid; ``leave`` gives the place back. For several threads."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._open: Counter[int] = Counter()
        self._tokens: dict[int, tuple[float, float]] = {}
        """Requests that a user may still make, as of a moment."""

    def refusal(self, uid: int) -> str | None:
        """None: admitted, to be followed by ``leave``; else why not, in one sentence."""
        with self._lock:
            if self._open[uid] >= self._limits.connections_per_user:
                most = self._limits.connections_per_user
                return f"you have {most} connections already; close one"
            if self._open.total() >= self._limits.connections:
                return "too many users are connected; try again in some seconds"
            if not self._takes_token(uid):
                rate = self._limits.requests_per_minute
                return f"more than {rate:g} requests a minute; try again in some seconds"
            self._open[uid] += 1
            return None

    def leave(self, uid: int) -> None:
        """A connection that was admitted is closed."""
        with self._lock:
            self._open[uid] -= 1
            if self._open[uid] <= 0:
                del self._open[uid]

    def _takes_token(self, uid: int) -> bool:
        now_s = self._clock()
        left, at_s = self._tokens.get(uid, (float(self._limits.burst), now_s))
        left = min(
            self._limits.burst, left + (now_s - at_s) * self._limits.requests_per_minute / 60
        )
        if len(self._tokens) >= _REMEMBERED:
            self._tokens.clear()
        self._tokens[uid] = (left - 1 if left >= 1 else left, now_s)
        return left >= 1
