"""Jobs that run, in the order of their planned ends, by partition."""

from __future__ import annotations

from berth.policies.replay.kernel.state import O_PART, P_RUN_AT, P_RUN_COUNT, S_PLAN_END, State


def place_of(s: State, p: int, end: float) -> int:
    """Where a job with this planned end goes: behind those with the same."""
    low = s.parts[p, P_RUN_AT]
    high = low + s.parts[p, P_RUN_COUNT]
    while low < high:
        middle = (low + high) // 2
        if s.spans[s.run_options[middle], S_PLAN_END] <= end:
            low = middle + 1
        else:
            high = middle
    return int(low)


def add_running(s: State, o: int) -> None:
    """By its ``plan_end``."""
    p = s.options[o, O_PART]
    at = place_of(s, p, s.spans[o, S_PLAN_END])
    i = s.parts[p, P_RUN_AT] + s.parts[p, P_RUN_COUNT]
    while i > at:
        s.run_options[i] = s.run_options[i - 1]
        i -= 1
    s.run_options[at] = o
    s.parts[p, P_RUN_COUNT] += 1


def remove_running(s: State, o: int) -> None:
    """``plan_end`` must still be what it was added by."""
    p = s.options[o, O_PART]
    i = place_of(s, p, s.spans[o, S_PLAN_END]) - 1
    while s.run_options[i] != o:
        i -= 1
    last = s.parts[p, P_RUN_AT] + s.parts[p, P_RUN_COUNT] - 1
    while i < last:
        s.run_options[i] = s.run_options[i + 1]
        i += 1
    s.parts[p, P_RUN_COUNT] -= 1
