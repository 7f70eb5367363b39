"""Waiting jobs: a linked list of options for each queue, by priority, then by when they came.

On pools each partition has its queue. On nodes there is one for all, with a job's first option.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.priority import rank_one
from berth.policies.replay.kernel.state import (
    J_COUNT,
    J_FIRST,
    J_STATUS,
    O_AFTER_ME,
    O_BEFORE_ME,
    O_JOB,
    O_PART,
    O_QUEUED,
    P_DIRTY,
    P_FRESH,
    P_HEAD,
    P_TAIL,
    P_WAITING,
    POOLED,
    QUEUED,
    S_PRIORITY,
    S_RESERVED,
    T_ELIGIBLE,
    State,
)


def queue_of(s: State, o: int) -> int:
    """The queue of an option."""
    return int(s.options[o, O_PART]) if s.counters[POOLED] else 0


def ahead(s: State, a: int, b: int) -> bool:
    """Whether option ``a`` stands before ``b``."""
    if s.spans[a, S_PRIORITY] != s.spans[b, S_PRIORITY]:
        return bool(s.spans[a, S_PRIORITY] > s.spans[b, S_PRIORITY])
    i, j = s.options[a, O_JOB], s.options[b, O_JOB]
    if s.moments[i, T_ELIGIBLE] != s.moments[j, T_ELIGIBLE]:
        return bool(s.moments[i, T_ELIGIBLE] < s.moments[j, T_ELIGIBLE])
    return bool(i < j)


def insert(s: State, o: int) -> None:
    """Put an option in its place, looking from the end."""
    q = queue_of(s, o)
    behind = -1
    before = s.parts[q, P_TAIL]
    while before >= 0 and ahead(s, o, before):
        behind = before
        before = s.options[before, O_BEFORE_ME]
    s.options[o, O_BEFORE_ME] = before
    s.options[o, O_AFTER_ME] = behind
    if before >= 0:
        s.options[before, O_AFTER_ME] = o
    else:
        s.parts[q, P_HEAD] = o
    if behind >= 0:
        s.options[behind, O_BEFORE_ME] = o
        s.parts[q, P_DIRTY] = 1
    else:
        s.parts[q, P_TAIL] = o
        if s.parts[q, P_FRESH] < 0:
            s.parts[q, P_FRESH] = o
    s.options[o, O_QUEUED] = 1
    s.spans[o, S_RESERVED] = np.inf
    s.parts[s.options[o, O_PART], P_WAITING] += 1


def unlink(s: State, o: int) -> None:
    """Take an option out of its queue."""
    q = queue_of(s, o)
    before, behind = s.options[o, O_BEFORE_ME], s.options[o, O_AFTER_ME]
    if before >= 0:
        s.options[before, O_AFTER_ME] = behind
    else:
        s.parts[q, P_HEAD] = behind
    if behind >= 0:
        s.options[behind, O_BEFORE_ME] = before
    else:
        s.parts[q, P_TAIL] = before
    if s.parts[q, P_FRESH] == o:
        s.parts[q, P_FRESH] = behind
    s.options[o, O_QUEUED] = 0
    s.parts[s.options[o, O_PART], P_WAITING] -= 1


def enqueue(s: State, i: int) -> None:
    """A job waits, by all of its options (pools) or its first (nodes)."""
    s.jobs[i, J_STATUS] = QUEUED
    options = s.jobs[i, J_COUNT] if s.counters[POOLED] else 1
    for o in range(s.jobs[i, J_FIRST], s.jobs[i, J_FIRST] + options):
        rank_one(s, o)
        insert(s, o)
