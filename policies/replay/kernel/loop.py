"""The loop over events: at each moment, first jobs end, then jobs are submitted, then jobs
start.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.jobs import exceed, finish, submit
from berth.policies.replay.kernel.passes import easy, fcfs, pass_nodes
from berth.policies.replay.kernel.queues import pop
from berth.policies.replay.kernel.state import State


def pass_all(s: State) -> None:
    """Start all jobs that can start now."""
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
            else:
                easy(s, q)


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


def run(s: State, stop: int) -> None:
    """Run until job ``stop`` is the next to be submitted, with all due events handled."""
    jobs = len(s.jobs)
    while True:
        if s.counters[at.PENDING] and s.clock[at.NOW] >= s.clock[at.PASS_AT]:
            pass_all(s)
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
                return
            happen(s, due)
            look(s)
        elif i >= stop:
            return
        else:
            s.clock[at.NOW] = coming
            submit(s, i)
            s.counters[at.NEXT] = i + 1
            if i + 1 >= jobs or s.moments[i + 1, at.T_SUBMIT] > coming:
                look(s)
