"""How long calls take, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable


def times_s(
    work: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Seconds of each of ``runs`` calls of ``work`` by ``clock``, after a warm-up."""
    work()
    found = []
    for _ in range(runs):
        start = clock()
        work()
        found.append(clock() - start)
    return found
