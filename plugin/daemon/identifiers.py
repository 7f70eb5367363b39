"""Identifiers of decisions: short, sorted by time, and unique among all hosts that share
a store.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from berth.plugin.host import HOST, Clock

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, which lacks the letters that people mistake for digits."""
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]


class Identifiers:
    """Makes identifiers of 16 characters: 9 for milliseconds, 3 for a counter, 4 for the
    process."""

    def __init__(
        self, clock: Clock = HOST.clock, random: Callable[[int], int] = secrets.randbits
    ) -> None:
        self._clock = clock
        self._own = _encode(random(20), 4)
        self._count = random(15)
        self._last_ms = 0

    def next(self) -> str:
        """Return a new identifier, which sorts after the last one even if the clock was
        set back.
        """
        now_ms = max(self._last_ms, self._clock.time_ns() // 1_000_000)
        self._last_ms = now_ms
        self._count = (self._count + 1) % 32**3
        return _encode(now_ms, 9) + _encode(self._count, 3) + self._own


def _encode(value: int, length: int) -> str:
    text = ""
    for _ in range(length >> 1):
        text = _PAIRS[value & 1023] + text
        value >>= 10
    return _DIGITS[value & 31] + text if length & 1 else text
