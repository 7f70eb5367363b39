"""Which waiting jobs start now where jobs get nodes, and partitions may share them."""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.claims import choose, earliest, forget, reserve
from berth.policies.replay.kernel.jobs import start
from berth.policies.replay.kernel.state import (
    BACKFILL,
    BACKFILL_EVERY,
    J_COUNT,
    J_FIRST,
    N_BLOCKED,
    NOW,
    O_AFTER_ME,
    O_JOB,
    O_PART,
    P_AT,
    P_BLOCKED,
    P_DELAYED,
    P_DIRTY,
    P_FRESH,
    P_HEAD,
    V_BACKFILL,
    V_WAKE,
    State,
)
from berth.policies.replay.kernel.tried import try_anew


def start_somewhere(s: State, i: int, strict: bool) -> bool:
    """Start the job by the first of its options that has room now; ``strict``: passing nobody."""
    now = s.clock[NOW]
    for o in range(s.jobs[i, J_FIRST], s.jobs[i, J_FIRST] + s.jobs[i, J_COUNT]):
        if strict and s.parts[s.options[o, O_PART], P_BLOCKED]:
            continue
        if choose(s, o, now, now):
            start(s, o)
            return True
    return False


def hold_up(s: State, i: int) -> None:
    """FCFS: nothing behind this job may use the nodes of its partitions."""
    for o in range(s.jobs[i, J_FIRST], s.jobs[i, J_FIRST] + s.jobs[i, J_COUNT]):
        p = s.options[o, O_PART]
        if not s.parts[p, P_BLOCKED]:
            s.parts[p, P_BLOCKED] = 1
            for place in range(s.parts[p, P_AT], s.parts[p + 1, P_AT]):
                s.nodes[s.part_units[place], N_BLOCKED] = 1


def reserve_earliest(s: State, i: int) -> None:
    """Where the job can start first. EASY: only the first waiting job of a partition."""
    now = s.clock[NOW]
    best, begin = -1, np.inf
    for o in range(s.jobs[i, J_FIRST], s.jobs[i, J_FIRST] + s.jobs[i, J_COUNT]):
        if s.counters[BACKFILL] == 1 and s.parts[s.options[o, O_PART], P_BLOCKED]:
            continue
        found = earliest(s, o, now)
        if found < begin:
            best, begin = o, found
    if best >= 0:
        s.parts[s.options[best, O_PART], P_BLOCKED] = 1
        reserve(s, best, begin)
        s.part_values[0, V_WAKE] = min(s.part_values[0, V_WAKE], begin)


def mode_now(s: State) -> int:
    """As ``BACKFILL``; between two passes of a replanned backfill jobs start in order."""
    mode = int(s.counters[BACKFILL])
    if mode != 3:
        return mode
    s.parts[0, P_DIRTY] = 1
    if s.clock[NOW] < s.part_values[0, V_BACKFILL]:
        return 0
    s.part_values[0, V_BACKFILL] = s.clock[NOW] + s.clock[BACKFILL_EVERY]
    return mode


def pass_nodes(s: State) -> None:
    """One pass over the queue; where nothing ended since the last, only over new jobs."""
    mode = mode_now(s)
    o = s.parts[0, P_FRESH]
    if s.parts[0, P_DIRTY] or s.parts[0, P_HEAD] == o:
        o = s.parts[0, P_HEAD]
        s.part_values[0, V_WAKE] = np.inf
        for p in range(len(s.part_values)):
            s.parts[p, P_BLOCKED] = 0
        for u in range(len(s.nodes)):
            s.nodes[u, N_BLOCKED] = 0
        if mode != 2 or s.parts[0, P_DELAYED]:
            each = o
            while each >= 0:
                forget(s, s.options[each, O_JOB])
                each = s.options[each, O_AFTER_ME]
    s.parts[0, P_DIRTY] = 0
    s.parts[0, P_DELAYED] = 0
    s.parts[0, P_FRESH] = -1
    try_anew(s)
    while o >= 0:
        behind = s.options[o, O_AFTER_ME]
        i = s.options[o, O_JOB]
        forget(s, i)
        if not start_somewhere(s, i, mode == 0):
            if mode == 0:
                hold_up(s, i)
            else:
                reserve_earliest(s, i)
        o = behind
    if s.counters[BACKFILL] == 3 and s.parts[0, P_HEAD] >= 0:
        wake = s.part_values[0, V_WAKE] if mode == 3 else 0.0
        s.part_values[0, V_WAKE] = max(wake, s.part_values[0, V_BACKFILL])
