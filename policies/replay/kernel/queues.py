"""Ordered lists: events by time, waiting jobs by eligible time, running jobs by planned end.

Events are a binary heap in two arrays, by time, then by code. Waiting jobs are a linked list of
options for each queue, by the time when they became eligible. In pools, each
partition has a queue; on nodes, one queue has the first option of every job. Running jobs are a
sorted range for each partition.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.state import State


def queue_of(s: State, o: int) -> int:
    """Return the number of the option's queue: its partition in pools, 0 on nodes."""
    return int(s.options[o, at.O_PART]) if s.counters[at.POOLED] else 0


def ahead(s: State, a: int, b: int) -> bool:
    """Return whether option ``a`` precedes option ``b``: by eligible time, then job number."""
    i, j = s.options[a, at.O_JOB], s.options[b, at.O_JOB]
    if s.moments[i, at.T_ELIGIBLE] != s.moments[j, at.T_ELIGIBLE]:
        return bool(s.moments[i, at.T_ELIGIBLE] < s.moments[j, at.T_ELIGIBLE])
    return bool(i < j)


def insert(s: State, o: int) -> None:
    """Insert an option into its queue by its eligible time, searching from the end."""
    q = queue_of(s, o)
    behind = -1
    before = s.parts[q, at.P_TAIL]
    while before >= 0 and ahead(s, o, before):
        behind = before
        before = s.options[before, at.O_BEFORE_ME]
    s.options[o, at.O_BEFORE_ME] = before
    s.options[o, at.O_AFTER_ME] = behind
    if before >= 0:
        s.options[before, at.O_AFTER_ME] = o
    else:
        s.parts[q, at.P_HEAD] = o
    if behind >= 0:
        s.options[behind, at.O_BEFORE_ME] = o
        s.parts[q, at.P_DIRTY] = 1
    else:
        s.parts[q, at.P_TAIL] = o
        if s.parts[q, at.P_FRESH] < 0:
            s.parts[q, at.P_FRESH] = o
    s.options[o, at.O_QUEUED] = 1
    s.spans[o, at.S_RESERVED] = np.inf
    s.parts[s.options[o, at.O_PART], at.P_WAITING] += 1


def unlink(s: State, o: int) -> None:
    """Remove an option from its queue."""
    q = queue_of(s, o)
    before, behind = s.options[o, at.O_BEFORE_ME], s.options[o, at.O_AFTER_ME]
    if before >= 0:
        s.options[before, at.O_AFTER_ME] = behind
    else:
        s.parts[q, at.P_HEAD] = behind
    if behind >= 0:
        s.options[behind, at.O_BEFORE_ME] = before
    else:
        s.parts[q, at.P_TAIL] = before
    if s.parts[q, at.P_FRESH] == o:
        s.parts[q, at.P_FRESH] = behind
    s.options[o, at.O_QUEUED] = 0
    s.parts[s.options[o, at.O_PART], at.P_WAITING] -= 1


def enqueue(s: State, i: int) -> None:
    """Queue a job, by all of its options (pools) or by its first one (nodes)."""
    s.jobs[i, at.J_STATUS] = at.QUEUED
    options = s.jobs[i, at.J_COUNT] if s.counters[at.POOLED] else 1
    for o in range(s.jobs[i, at.J_FIRST], s.jobs[i, at.J_FIRST] + options):
        insert(s, o)


def push(s: State, time: float, code: int) -> None:
    """Add an event to the heap."""
    i = s.counters[at.HEAP]
    s.counters[at.HEAP] = i + 1
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
    """Remove the earliest event from the heap and return its code."""
    first = int(s.heap_code[0])
    n = s.counters[at.HEAP] - 1
    s.counters[at.HEAP] = n
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
    return first


def place_of(s: State, p: int, end: float) -> int:
    """Return the index in ``run_options`` for a job with this planned end, after those with equal
    ends."""
    low = s.parts[p, at.P_RUN_AT]
    high = low + s.parts[p, at.P_RUN_COUNT]
    while low < high:
        middle = (low + high) // 2
        if s.spans[s.run_options[middle], at.S_PLAN_END] <= end:
            low = middle + 1
        else:
            high = middle
    return int(low)


def add_running(s: State, o: int) -> None:
    """Add an option to its partition's running options, sorted by planned end (``S_PLAN_END``)."""
    p = s.options[o, at.O_PART]
    place = place_of(s, p, s.spans[o, at.S_PLAN_END])
    i = s.parts[p, at.P_RUN_AT] + s.parts[p, at.P_RUN_COUNT]
    while i > place:
        s.run_options[i] = s.run_options[i - 1]
        i -= 1
    s.run_options[place] = o
    s.parts[p, at.P_RUN_COUNT] += 1


def remove_running(s: State, o: int) -> None:
    """Remove an option from the running ones; its planned end must be the same as when it was
    added."""
    p = s.options[o, at.O_PART]
    i = place_of(s, p, s.spans[o, at.S_PLAN_END]) - 1
    while s.run_options[i] != o:
        i -= 1
    last = s.parts[p, at.P_RUN_AT] + s.parts[p, at.P_RUN_COUNT] - 1
    while i < last:
        s.run_options[i] = s.run_options[i + 1]
        i += 1
    s.parts[p, at.P_RUN_COUNT] -= 1
