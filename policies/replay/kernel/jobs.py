"""The events in a job's life: it becomes eligible, starts, ends, or exceeds its plan."""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import claim, unclaim
from berth.policies.replay.kernel.queues import (
    add_running,
    enqueue,
    push,
    queue_of,
    remove_running,
    unlink,
)
from berth.policies.replay.kernel.state import State, claims_of, options_of


def submit(s: State, i: int) -> None:
    """Submit job ``i``: it is queued, or held until the job that it depends on has ended.

    A job without options is refused.
    """
    if s.jobs[i, at.J_COUNT] == 0:
        s.jobs[i, at.J_STATUS] = at.REFUSED
        release(s, i)
        return
    parent = s.jobs[i, at.J_AFTER]
    if parent >= 0 and s.jobs[parent, at.J_STATUS] < at.ENDED:
        s.jobs[i, at.J_STATUS] = at.HELD
        s.jobs[i, at.J_SIBLING] = s.jobs[parent, at.J_CHILD]
        s.jobs[parent, at.J_CHILD] = i
    else:
        admit(s, i)


def admit(s: State, i: int) -> None:
    """Put an eligible job into the queue; hold it where its array has reached its limit of live
    tasks.
    """
    a = s.jobs[i, at.J_ARRAY]
    if a >= 0 and s.arrays[a, at.A_LIVE] >= s.arrays[a, at.A_LIMIT]:
        s.jobs[i, at.J_STATUS] = at.HELD
        s.jobs[i, at.J_SIBLING] = -1
        if s.arrays[a, at.A_HEAD] < 0:
            s.arrays[a, at.A_HEAD] = i
        else:
            s.jobs[s.arrays[a, at.A_TAIL], at.J_SIBLING] = i
        s.arrays[a, at.A_TAIL] = i
        return
    if a >= 0:
        s.arrays[a, at.A_LIVE] += 1
    s.moments[i, at.T_ELIGIBLE] = s.clock[at.NOW]
    enqueue(s, i)


def release(s: State, i: int) -> None:
    """Admit the jobs that depend on job ``i``, which has ended, in order of submission.

    Also admit the next held task of the job's array.
    """
    c = s.jobs[i, at.J_CHILD]
    s.jobs[i, at.J_CHILD] = -1
    reversed_ = -1
    while c >= 0:
        following = s.jobs[c, at.J_SIBLING]
        s.jobs[c, at.J_SIBLING] = reversed_
        reversed_ = c
        c = following
    while reversed_ >= 0:
        following = s.jobs[reversed_, at.J_SIBLING]
        admit(s, reversed_)
        reversed_ = following
    a = s.jobs[i, at.J_ARRAY]
    if a >= 0 and s.jobs[i, at.J_STATUS] != at.REFUSED:
        s.arrays[a, at.A_LIVE] -= 1
        h = s.arrays[a, at.A_HEAD]
        if h >= 0:
            s.arrays[a, at.A_HEAD] = s.jobs[h, at.J_SIBLING]
            admit(s, h)


def start(s: State, o: int) -> None:
    """Start a waiting job by option ``o``; on nodes, the option's claims name its nodes already."""
    now = s.clock[at.NOW]
    i = s.options[o, at.O_JOB]
    pooled = s.counters[at.POOLED]
    if pooled:
        for other in options_of(s.jobs, i):
            unlink(s, other)
            if other != o:
                s.parts[s.options[other, at.O_PART], at.P_DIRTY] = 1
        p = s.options[o, at.O_PART]
        for r in range(s.need.shape[1]):
            s.free[s.part_units[s.parts[p, at.P_AT]], r] -= s.need[o, r]
    else:
        unlink(s, s.jobs[i, at.J_FIRST])
        for k in claims_of(s.options, o):
            for r in range(s.need.shape[1]):
                s.free[s.claims[k, at.C_ALLOC], r] -= s.need[o, r]
            claim(s, k, now, now + s.spans[o, at.S_PLAN])
    lasts = min(s.spans[o, at.S_RUN], s.spans[o, at.S_LIMIT])
    s.jobs[i, at.J_STATUS] = at.RUNNING
    s.jobs[i, at.J_CHOSEN] = o
    s.moments[i, at.T_START] = now
    s.spans[o, at.S_PLAN_END] = now + s.spans[o, at.S_PLAN]
    s.spans[o, at.S_DUE] = now + lasts
    s.spans[o, at.S_RESERVED] = np.inf
    add_running(s, o)
    push(s, s.spans[o, at.S_DUE], at.KINDS * o + at.END)
    if s.spans[o, at.S_PLAN_END] < s.spans[o, at.S_DUE]:
        push(s, s.spans[o, at.S_PLAN_END], at.KINDS * o + at.EXCEEDED)


def free_units(s: State, o: int) -> None:
    """Free the nodes or the part of the pool that a running job holds."""
    remove_running(s, o)
    p = s.options[o, at.O_PART]
    if s.counters[at.POOLED]:
        for r in range(s.need.shape[1]):
            s.free[s.part_units[s.parts[p, at.P_AT]], r] += s.need[o, r]
    else:
        for k in claims_of(s.options, o):
            for r in range(s.need.shape[1]):
                s.free[s.claims[k, at.C_ALLOC], r] += s.need[o, r]
            unclaim(s, k)
    s.parts[queue_of(s, o), at.P_DIRTY] = 1


def finish(s: State, o: int) -> None:
    """End a job, by itself or at its time limit."""
    i = s.options[o, at.O_JOB]
    free_units(s, o)
    s.jobs[i, at.J_STATUS] = at.ENDED
    s.moments[i, at.T_END] = s.clock[at.NOW]
    s.jobs[i, at.J_KILLED] = 1 if s.spans[o, at.S_RUN] > s.spans[o, at.S_LIMIT] else 0
    release(s, i)


def exceed(s: State, o: int) -> None:
    """Double the planned time of a job that runs longer than planned, up to its time limit."""
    i, now = s.options[o, at.O_JOB], s.clock[at.NOW]
    if s.jobs[i, at.J_STATUS] != at.RUNNING:
        return
    ran = max(now - s.moments[i, at.T_START], 1.0)
    longer = s.moments[i, at.T_START] + 2.0 * ran
    latest = s.moments[i, at.T_START] + s.spans[o, at.S_LIMIT]
    if latest > now:
        longer = min(longer, latest)
    remove_running(s, o)
    s.spans[o, at.S_PLAN_END] = longer
    add_running(s, o)
    if not s.counters[at.POOLED]:
        for k in claims_of(s.options, o):
            s.claim_times[k, at.D_END] = longer
    if longer < s.spans[o, at.S_DUE]:
        push(s, longer, at.KINDS * o + at.EXCEEDED)
    s.parts[queue_of(s, o), at.P_DIRTY] = 1
