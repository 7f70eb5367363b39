"""What a machine's speed and load make of a limit in seconds."""

from __future__ import annotations

import time

LOOPED_S = 0.2


def million_steps_s() -> float:
    """Processor seconds of a million steps of an empty loop, the least of three, here and now."""
    seconds = []
    for _ in range(3):
        begun_s = time.thread_time()
        for _ in range(1_000_000):
            pass
        seconds.append(time.thread_time() - begun_s)
    return min(seconds)


def is_over(elapsed_s: float, limit_s: float) -> bool:
    """Whether a limit for waiting has passed, stretched by what other programs, niceness, one
    processor for all or a quota make of a loop's processor time now."""
    if elapsed_s <= limit_s:
        return False
    begun_s, begun_cpu_s = time.monotonic(), time.thread_time()
    while time.thread_time() - begun_cpu_s < LOOPED_S:
        pass
    return elapsed_s > limit_s * (time.monotonic() - begun_s) / LOOPED_S
