"""The loop over events: at each moment, first jobs end, then jobs are submitted, then jobs
start.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import claim, unclaim
from berth.policies.replay.kernel.jobs import exceed, finish, interrupt, submit
from berth.policies.replay.kernel.passes import conservative, easy, fcfs, pass_nodes, replanned
from berth.policies.replay.kernel.priority import rank
from berth.policies.replay.kernel.queues import pop, push
from berth.policies.replay.kernel.state import State, claims_of


def grows(s: State, q: int) -> bool:
    """Return whether a pool's profile may need more segments than its arrays have room for."""
    # Each job begins and ends a segment at its present reservation and at the one before this
    # pass; each job that ends before the next pass begins one more segment.
    most = 8 * (s.parts[q, at.P_WAITING] + s.parts[q, at.P_RUN_COUNT]) + 8
    return bool(s.counters[at.BACKFILL] >= 2 and most > s.seg_time.shape[1])


def pass_all(s: State) -> bool:
    """Start all jobs that can start now; False: a profile lacks room, so call again with more."""
    rank(s)
    again = True
    while again:
        again = False
        for q in range(s.counters[at.QUEUES]):
            if s.parts[q, at.P_HEAD] < 0:
                s.parts[q, at.P_FRESH] = -1
                s.part_values[q, at.V_WAKE] = np.inf
                if s.counters[at.BACKFILL] != 2 or not s.counters[at.POOLED]:
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
            elif s.counters[at.BACKFILL] == 2:
                conservative(s, q)
            else:
                replanned(s, q)
    return True


def node_fails(s: State, f: int) -> None:
    """Fail a node: its jobs are interrupted, and no job fits on the node until its repair."""
    u, k = s.failures[f, at.F_UNIT], s.failures[f, at.F_CLAIM]
    for p in range(len(s.part_values)):
        place = s.parts[p, at.P_RUN_AT]
        while place < s.parts[p, at.P_RUN_AT] + s.parts[p, at.P_RUN_COUNT]:
            o = s.run_options[place]
            hit = False
            for each in claims_of(s.options, o):
                if s.claims[each, at.C_ALLOC] == u:
                    hit = True
            if hit:
                interrupt(s, o)
            else:
                place += 1
    for r in range(s.free.shape[1]):
        s.free[u, r] -= s.capacity[u, r]
    claim(s, k, s.clock[at.NOW], s.fail_end[f])
    push(s, s.fail_end[f], at.KINDS * f + at.UP)
    s.parts[0, at.P_DELAYED] = 1
    s.parts[0, at.P_DIRTY] = 1


def node_works(s: State, f: int) -> None:
    """Repair a node, which then is empty and has all its resources."""
    u = s.failures[f, at.F_UNIT]
    for r in range(s.free.shape[1]):
        s.free[u, r] += s.capacity[u, r]
    unclaim(s, s.failures[f, at.F_CLAIM])
    s.parts[0, at.P_DIRTY] = 1


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
        elif kind == at.DOWN:
            node_fails(s, subject)
        elif kind == at.UP:
            node_works(s, subject)
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
    """Run until job ``stop`` is the next to be submitted, or until ``UNTIL``, with all due
    events handled.

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
        if min(due, coming) > s.clock[at.UNTIL]:
            s.clock[at.NOW] = s.clock[at.UNTIL]
            return True
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
