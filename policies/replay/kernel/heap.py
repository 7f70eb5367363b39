"""Events by time, then by code: a binary heap in two arrays."""

from __future__ import annotations

from berth.policies.replay.kernel.state import HEAP, State


def push(s: State, time: float, code: int) -> None:
    """Add an event."""
    i = s.counters[HEAP]
    s.counters[HEAP] = i + 1
    while i > 0:
        up = (i - 1) // 2
        if s.heap_time[up] < time or (s.heap_time[up] == time and s.heap_code[up] <= code):
            break
        s.heap_time[i] = s.heap_time[up]
        s.heap_code[i] = s.heap_code[up]
        i = up
    s.heap_time[i] = time
    s.heap_code[i] = code


def pop(s: State) -> int:
    """Take the first event away; its code."""
    found = int(s.heap_code[0])
    n = s.counters[HEAP] - 1
    s.counters[HEAP] = n
    time = s.heap_time[n]
    code = s.heap_code[n]
    i = 0
    while True:
        low = 2 * i + 1
        if low >= n:
            break
        right = low + 1
        if right < n and (
            s.heap_time[right] < s.heap_time[low]
            or (s.heap_time[right] == s.heap_time[low] and s.heap_code[right] < s.heap_code[low])
        ):
            low = right
        if time < s.heap_time[low] or (time == s.heap_time[low] and code <= s.heap_code[low]):
            break
        s.heap_time[i] = s.heap_time[low]
        s.heap_code[i] = s.heap_code[low]
        i = low
    s.heap_time[i] = time
    s.heap_code[i] = code
    return found
