"""The life of a job: it becomes eligible, starts, ends, exceeds its plan, loses its node."""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.claims import claim, unclaim
from berth.policies.replay.kernel.holes import give_back
from berth.policies.replay.kernel.priority import charge_ended
from berth.policies.replay.kernel.queues import (
    add_running,
    enqueue,
    push,
    queue_of,
    remove_running,
    unlink,
)
from berth.policies.replay.kernel.state import (
    A_HEAD,
    A_LIMIT,
    A_LIVE,
    A_TAIL,
    BACKFILL,
    C_ALLOC,
    D_END,
    END,
    ENDED,
    EXCEEDED,
    HELD,
    J_AFTER,
    J_ARRAY,
    J_CHILD,
    J_CHOSEN,
    J_COUNT,
    J_FIRST,
    J_KILLED,
    J_REQUEUES,
    J_SIBLING,
    J_STATUS,
    KINDS,
    LOST,
    NOW,
    O_ALLOC_AT,
    O_JOB,
    O_PART,
    O_UNITS,
    P_AT,
    P_DELAYED,
    P_DIRTY,
    POOLED,
    REFUSED,
    REQUEUE,
    RUNNING,
    S_DUE,
    S_LIMIT,
    S_PLAN,
    S_PLAN_END,
    S_RESERVED,
    S_RUN,
    T_ELIGIBLE,
    T_END,
    T_START,
    State,
)


def submit(s: State, i: int) -> None:
    """Submit a job: it waits in the queue, for another job, or for its array."""
    if s.jobs[i, J_COUNT] == 0:
        s.jobs[i, J_STATUS] = REFUSED
        release(s, i)
        return
    parent = s.jobs[i, J_AFTER]
    if parent >= 0 and s.jobs[parent, J_STATUS] < ENDED:
        s.jobs[i, J_STATUS] = HELD
        s.jobs[i, J_SIBLING] = s.jobs[parent, J_CHILD]
        s.jobs[parent, J_CHILD] = i
    else:
        admit(s, i)


def admit(s: State, i: int) -> None:
    """Let a job into the queue, unless its array has as many jobs there as it may."""
    a = s.jobs[i, J_ARRAY]
    if a >= 0 and s.arrays[a, A_LIVE] >= s.arrays[a, A_LIMIT]:
        s.jobs[i, J_STATUS] = HELD
        s.jobs[i, J_SIBLING] = -1
        if s.arrays[a, A_HEAD] < 0:
            s.arrays[a, A_HEAD] = i
        else:
            s.jobs[s.arrays[a, A_TAIL], J_SIBLING] = i
        s.arrays[a, A_TAIL] = i
        return
    if a >= 0:
        s.arrays[a, A_LIVE] += 1
    s.moments[i, T_ELIGIBLE] = s.clock[NOW]
    enqueue(s, i)


def release(s: State, i: int) -> None:
    """Let go on the jobs that waited for one that has ended, the first submitted first."""
    c = s.jobs[i, J_CHILD]
    s.jobs[i, J_CHILD] = -1
    reversed_ = -1
    while c >= 0:
        following = s.jobs[c, J_SIBLING]
        s.jobs[c, J_SIBLING] = reversed_
        reversed_ = c
        c = following
    while reversed_ >= 0:
        following = s.jobs[reversed_, J_SIBLING]
        admit(s, reversed_)
        reversed_ = following
    a = s.jobs[i, J_ARRAY]
    if a >= 0 and s.jobs[i, J_STATUS] != REFUSED:
        s.arrays[a, A_LIVE] -= 1
        h = s.arrays[a, A_HEAD]
        if h >= 0:
            s.arrays[a, A_HEAD] = s.jobs[h, J_SIBLING]
            admit(s, h)


def start(s: State, o: int) -> None:
    """Start a waiting job by an option; on nodes its units stand in ``alloc``."""
    now = s.clock[NOW]
    i = s.options[o, O_JOB]
    pooled = s.counters[POOLED]
    if pooled:
        for other in range(s.jobs[i, J_FIRST], s.jobs[i, J_FIRST] + s.jobs[i, J_COUNT]):
            unlink(s, other)
            if other != o:
                if s.counters[BACKFILL] == 2 and s.spans[other, S_RESERVED] < np.inf:
                    give_back(
                        s,
                        s.options[other, O_PART],
                        other,
                        s.spans[other, S_RESERVED],
                        s.spans[other, S_PLAN],
                    )
                s.parts[s.options[other, O_PART], P_DIRTY] = 1
        p = s.options[o, O_PART]
        for r in range(s.need.shape[1]):
            s.free[s.part_units[s.parts[p, P_AT]], r] -= s.need[o, r]
    else:
        unlink(s, s.jobs[i, J_FIRST])
        for k in range(s.options[o, O_ALLOC_AT], s.options[o, O_ALLOC_AT] + s.options[o, O_UNITS]):
            for r in range(s.need.shape[1]):
                s.free[s.claims[k, C_ALLOC], r] -= s.need[o, r]
            claim(s, k, now, now + s.spans[o, S_PLAN])
    lasts = min(s.spans[o, S_RUN], s.spans[o, S_LIMIT])
    s.jobs[i, J_STATUS] = RUNNING
    s.jobs[i, J_CHOSEN] = o
    s.moments[i, T_START] = now
    s.spans[o, S_PLAN_END] = now + s.spans[o, S_PLAN]
    s.spans[o, S_DUE] = now + lasts
    s.spans[o, S_RESERVED] = np.inf
    add_running(s, o)
    push(s, s.spans[o, S_DUE], KINDS * o + END)
    if s.spans[o, S_PLAN_END] < s.spans[o, S_DUE]:
        push(s, s.spans[o, S_PLAN_END], KINDS * o + EXCEEDED)


def free_units(s: State, o: int) -> None:
    """Free what a running job holds."""
    now = s.clock[NOW]
    charge_ended(s, o)
    remove_running(s, o)
    p = s.options[o, O_PART]
    if s.counters[POOLED]:
        for r in range(s.need.shape[1]):
            s.free[s.part_units[s.parts[p, P_AT]], r] += s.need[o, r]
        if s.counters[BACKFILL] == 2 and s.spans[o, S_PLAN_END] > now:
            give_back(s, p, o, now, s.spans[o, S_PLAN_END] - now)
    else:
        for k in range(s.options[o, O_ALLOC_AT], s.options[o, O_ALLOC_AT] + s.options[o, O_UNITS]):
            for r in range(s.need.shape[1]):
                s.free[s.claims[k, C_ALLOC], r] += s.need[o, r]
            unclaim(s, k)
    s.parts[queue_of(s, o), P_DIRTY] = 1


def finish(s: State, o: int) -> None:
    """End a job, by itself or by its limit."""
    i = s.options[o, O_JOB]
    if (
        s.jobs[i, J_STATUS] != RUNNING
        or s.jobs[i, J_CHOSEN] != o
        or s.spans[o, S_DUE] != s.clock[NOW]
    ):
        return  # of a run that a broken node ended
    free_units(s, o)
    s.jobs[i, J_STATUS] = ENDED
    s.moments[i, T_END] = s.clock[NOW]
    s.jobs[i, J_KILLED] = 1 if s.spans[o, S_RUN] > s.spans[o, S_LIMIT] else 0
    release(s, i)


def exceed(s: State, o: int) -> None:
    """Plan with twice as much time, within its limit, for a job that runs longer than planned."""
    i, now = s.options[o, O_JOB], s.clock[NOW]
    if s.jobs[i, J_STATUS] != RUNNING or s.jobs[i, J_CHOSEN] != o or s.spans[o, S_PLAN_END] != now:
        return
    ran = max(now - s.moments[i, T_START], 1.0)
    longer = s.moments[i, T_START] + 2.0 * ran
    latest = s.moments[i, T_START] + s.spans[o, S_LIMIT]
    if latest > now:
        longer = min(longer, latest)
    remove_running(s, o)
    s.spans[o, S_PLAN_END] = longer
    add_running(s, o)
    if not s.counters[POOLED]:
        for k in range(s.options[o, O_ALLOC_AT], s.options[o, O_ALLOC_AT] + s.options[o, O_UNITS]):
            s.claim_times[k, D_END] = longer
    if longer < s.spans[o, S_DUE]:
        push(s, longer, KINDS * o + EXCEEDED)
    s.parts[queue_of(s, o), P_DELAYED] = 1
    s.parts[queue_of(s, o), P_DIRTY] = 1


def interrupt(s: State, o: int) -> None:
    """Put a job whose node broke back into the queue, or count it as lost."""
    i = s.options[o, O_JOB]
    free_units(s, o)
    if s.counters[REQUEUE]:
        s.jobs[i, J_REQUEUES] += 1
        s.jobs[i, J_CHOSEN] = -1
        s.moments[i, T_START] = np.nan
        enqueue(s, i)
    else:
        s.jobs[i, J_STATUS] = LOST
        s.moments[i, T_END] = s.clock[NOW]
        release(s, i)
