"""The loop over events: at each moment, first jobs end, then jobs are submitted, then jobs
start.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.jobs import exceed, finish, submit
from berth.policies.replay.kernel.passes import easy, fcfs, pass_nodes, replanned
from berth.policies.replay.kernel.queues import pop
from berth.policies.replay.kernel.state import State


def grows(s: State, q: int) -> bool:
    """Return whether a pool's profile may need more segments than its arrays have room for."""
    # Each job begins and ends a segment at its present reservation and at the one before this
    # pass; each job that ends before the next pass begins one more segment.
    most = 8 * (s.parts[q, at.P_WAITING] + s.parts[q, at.P_RUN_COUNT]) + 8
    return bool(s.counters[at.BACKFILL] == 2 and most > s.seg_time.shape[1])


def pass_all(s: State) -> bool:
    """Start all jobs that can start now; False: a profile lacks room, so call again with more."""
    again = True
    while again:
        again = False
        for q in range(s.counters[at.QUEUES]):
            if s.parts[q, at.P_HEAD] < 0:
                s.parts[q, at.P_FRESH] = -1
                s.part_values[q, at.V_WAKE] = np.inf
                s.parts[q, at.P_DIRTY] = 0
                continue
            if not s.parts[q, at.P_DIRTY] and s.parts[q, at.P_FRESH] < 0:
                continue
            again = True
            if not s.counters[at.POOLED]:
                pass_nodes(s)
            elif s.counters[at.BACKFILL] == 0:
                fcfs(s, q)
            elif s.counters[at.BACKFILL] == 1:
                easy(s, q)
            elif grows(s, q):
                return False
            else:
                replanned(s, q)
    return True


def happen(s: State, now: float) -> None:
    """Handle all events that are due at ``now``."""
    s.clock[at.NOW] = now
    while s.counters[at.HEAP] > 0 and s.heap_time[0] <= now:
        code = pop(s)
        subject, kind = code // at.KINDS, code % at.KINDS
        if kind == at.END:
            finish(s, subject)
        elif kind == at.EXCEEDED:
            exceed(s, subject)
        else:
            s.parts[0, at.P_DIRTY] = 1
    for q in range(s.counters[at.QUEUES]):
        if s.part_values[q, at.V_WAKE] <= now:
            s.parts[q, at.P_DIRTY] = 1


def look(s: State) -> None:
    """Schedule a pass over the waiting jobs: now, or at the begin of the scheduler's next cycle."""
    if s.counters[at.PENDING]:
        return
    s.counters[at.PENDING] = 1
    if s.clock[at.CYCLE] > 0:
        s.clock[at.PASS_AT] = np.ceil(s.clock[at.NOW] / s.clock[at.CYCLE]) * s.clock[at.CYCLE]


def run(s: State, stop: int) -> bool:
    """Run until job ``stop`` is the next to be submitted, with all due events handled.

    False: a profile lacks room, so call again with more.
    """
    jobs = len(s.jobs)
    while True:
        if s.counters[at.PENDING] and s.clock[at.NOW] >= s.clock[at.PASS_AT]:
            if not pass_all(s):
                return False
            s.counters[at.PENDING] = 0
        i = s.counters[at.NEXT]
        coming = s.moments[i, at.T_SUBMIT] if i < jobs else np.inf
        due = s.heap_time[0] if s.counters[at.HEAP] > 0 else np.inf
        if s.counters[at.PENDING]:
            due = min(due, s.clock[at.PASS_AT])
        else:
            for q in range(s.counters[at.QUEUES]):
                due = min(due, s.part_values[q, at.V_WAKE])
        if due <= coming:
            if due == np.inf:
                return True
            happen(s, due)
            look(s)
        elif i >= stop:
            return True
        else:
            s.clock[at.NOW] = coming
            submit(s, i)
            s.counters[at.NEXT] = i + 1
            if i + 1 >= jobs or s.moments[i + 1, at.T_SUBMIT] > coming:
                look(s)
