"""One pass over the waiting jobs: which of them start now, in pools and on nodes.

In pools, each partition has its own pass with its kind of backfill. On nodes, one pass goes over
all partitions, which may share nodes.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import (
    choose,
    earliest,
    enough,
    forget,
    lacks,
    reserve,
    try_anew,
)
from berth.policies.replay.kernel.jobs import start
from berth.policies.replay.kernel.state import State, options_of, units_of


def fits(s: State, p: int, o: int) -> bool:
    """Return whether the partition's pool has room for option ``o`` now."""
    u = s.part_units[s.parts[p, at.P_AT]]
    return not lacks(s.free, u, s.need[o])


def preferred(s: State, o: int) -> int:
    """Return the option by which the job of option ``o``, which can start, starts: the first that
    is at the head of its partition's queue and has room, else ``o``."""
    for other in options_of(s.jobs, s.options[o, at.O_JOB]):
        p = s.options[other, at.O_PART]
        if other == o or (s.parts[p, at.P_HEAD] == other and fits(s, p, other)):
            return int(other)
    return o


def start_heads(s: State, p: int) -> int:
    """Start jobs in queue order until one does not fit; return the index of that job's option (the
    job in one partition), or -1 if all started.
    """
    o = int(s.parts[p, at.P_HEAD])
    while o >= 0 and fits(s, p, o):
        start(s, preferred(s, o))
        o = int(s.parts[p, at.P_HEAD])
    return o


def foresee(s: State, p: int, o: int) -> None:
    """Compute the *shadow time* of the first waiting job: when it can start by the planned ends.

    ``extra`` becomes what is free beside the job at that time.
    """
    u = s.part_units[s.parts[p, at.P_AT]]
    for r in range(s.need.shape[1]):
        s.extra[p, r] = s.free[u, r] - s.need[o, r]
    s.part_values[p, at.V_SHADOW] = np.inf
    last = s.parts[p, at.P_RUN_AT] + s.parts[p, at.P_RUN_COUNT]
    place = s.parts[p, at.P_RUN_AT]
    while place < last:
        moment = s.spans[s.run_options[place], at.S_PLAN_END]
        # The resources of all jobs that end at this moment become free together.
        while place < last and s.spans[s.run_options[place], at.S_PLAN_END] == moment:
            for r in range(s.need.shape[1]):
                s.extra[p, r] += s.need[s.run_options[place], r]
            place += 1
        if enough(s.extra, p):
            s.part_values[p, at.V_SHADOW] = moment
            return


def backfill(s: State, p: int, o: int) -> None:
    """Start the waiting jobs from option ``o`` on that fit now and do not delay the first
    waiting job.
    """
    u = s.part_units[s.parts[p, at.P_AT]]
    now = s.clock[at.NOW]
    while o >= 0:
        behind = s.options[o, at.O_AFTER_ME]
        if fits(s, p, o):
            best = preferred(s, o)
            if best != o:
                start(s, best)
            elif now + s.spans[o, at.S_PLAN] <= s.part_values[p, at.V_SHADOW]:
                start(s, o)
            elif not lacks(s.extra, p, s.need[o]):
                for r in range(s.need.shape[1]):
                    s.extra[p, r] -= s.need[o, r]
                start(s, o)
            if s.free[u, 0] == 0 and s.capacity[u, 1] == 0:
                return  # each job in this pool needs a core, and none is free
        o = behind


def easy(s: State, p: int) -> None:
    """Make one pass of EASY backfill (Lifka, JSSPP 1995) over the partition's queue.

    Only new jobs are examined if no job ended since the last pass.
    """
    fresh = s.parts[p, at.P_FRESH]
    full = s.parts[p, at.P_DIRTY] or s.parts[p, at.P_HEAD] == fresh
    s.parts[p, at.P_DIRTY] = 0
    s.parts[p, at.P_FRESH] = -1
    if not full:
        backfill(s, p, fresh)
        return
    o = start_heads(s, p)
    s.parts[p, at.P_FRESH] = -1
    if o >= 0:
        foresee(s, p, o)
        backfill(s, p, s.options[o, at.O_AFTER_ME])


def fcfs(s: State, p: int) -> None:
    """Start the partition's jobs in order of the queue until one does not fit."""
    s.parts[p, at.P_DIRTY] = 0
    s.parts[p, at.P_FRESH] = -1
    start_heads(s, p)
    s.parts[p, at.P_FRESH] = -1


def start_somewhere(s: State, i: int, strict: bool) -> bool:
    """Start the job by its first option with room now; ``strict``: not past a waiting job ahead."""
    now = s.clock[at.NOW]
    for o in options_of(s.jobs, i):
        if strict and s.parts[s.options[o, at.O_PART], at.P_BLOCKED]:
            continue
        if choose(s, o, now, now):
            start(s, o)
            return True
    return False


def hold_up(s: State, i: int) -> None:
    """Keep the nodes of the job's partitions free of all jobs behind it (FCFS)."""
    for o in options_of(s.jobs, i):
        p = s.options[o, at.O_PART]
        if not s.parts[p, at.P_BLOCKED]:
            s.parts[p, at.P_BLOCKED] = 1
            for place in units_of(s.parts, p):
                s.nodes[s.part_units[place], at.N_BLOCKED] = 1


def reserve_earliest(s: State, i: int) -> None:
    """Reserve nodes for the job where it can start first; in EASY, only for a partition's first
    job.
    """
    now = s.clock[at.NOW]
    best, begin = -1, np.inf
    for o in options_of(s.jobs, i):
        if s.counters[at.BACKFILL] == 1 and s.parts[s.options[o, at.O_PART], at.P_BLOCKED]:
            continue
        moment = earliest(s, o, now)
        if moment < begin:
            best, begin = o, moment
    if best >= 0:
        s.parts[s.options[best, at.O_PART], at.P_BLOCKED] = 1
        reserve(s, best, begin)
        s.part_values[0, at.V_WAKE] = min(s.part_values[0, at.V_WAKE], begin)


def mode_now(s: State) -> int:
    """Return this pass's backfill mode: 0 (in order) between the replanned passes, else the
    setting.
    """
    mode = int(s.counters[at.BACKFILL])
    if mode != 2:
        return mode
    s.parts[0, at.P_DIRTY] = 1
    if s.clock[at.NOW] < s.part_values[0, at.V_BACKFILL]:
        return 0
    s.part_values[0, at.V_BACKFILL] = s.clock[at.NOW] + s.clock[at.BACKFILL_EVERY]
    return mode


def pass_nodes(s: State) -> None:
    """Try to start the waiting jobs of the whole cluster once; only new jobs if no job ended since
    the last try.
    """
    mode = mode_now(s)
    o = s.parts[0, at.P_FRESH]
    if s.parts[0, at.P_DIRTY] or s.parts[0, at.P_HEAD] == o:
        o = s.parts[0, at.P_HEAD]
        s.part_values[0, at.V_WAKE] = np.inf
        for p in range(len(s.part_values)):
            s.parts[p, at.P_BLOCKED] = 0
        for u in range(len(s.nodes)):
            s.nodes[u, at.N_BLOCKED] = 0
        each = o
        while each >= 0:
            forget(s, s.options[each, at.O_JOB])
            each = s.options[each, at.O_AFTER_ME]
    s.parts[0, at.P_DIRTY] = 0
    s.parts[0, at.P_FRESH] = -1
    try_anew(s)
    while o >= 0:
        behind = s.options[o, at.O_AFTER_ME]
        i = s.options[o, at.O_JOB]
        forget(s, i)
        if not start_somewhere(s, i, mode == 0):
            if mode == 0:
                hold_up(s, i)
            else:
                reserve_earliest(s, i)
        o = behind
    if s.counters[at.BACKFILL] == 2 and s.parts[0, at.P_HEAD] >= 0:
        wake = s.part_values[0, at.V_WAKE] if mode == 2 else 0.0
        s.part_values[0, at.V_WAKE] = max(wake, s.part_values[0, at.V_BACKFILL])
