"""Multifactor priority: age, fair share with decayed usage, size, partition.

It follows Slurm's plugin ``priority/multifactor`` with its classic fair-share factor ``2 ** -(usage
/ shares)`` and exponential decay of usage by a half-life.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.state import (
    AGE,
    CHARGED,
    FAIR,
    HALF_LIFE,
    J_USER,
    MAX_AGE,
    MULTIFACTOR,
    NOW,
    O_AFTER_ME,
    O_BEFORE_ME,
    O_JOB,
    O_PART,
    O_UNITS,
    P_DIRTY,
    P_FRESH,
    P_HEAD,
    P_RUN_AT,
    P_RUN_COUNT,
    P_TAIL,
    PARTITION,
    PERIOD,
    QUEUES,
    RANKED,
    S_PRIORITY,
    SIZE,
    T_ELIGIBLE,
    T_START,
    U_SHARES,
    U_USAGE,
    V_PRIORITY,
    State,
)
from berth.policies.replay.trace import Ints


def charge(s: State) -> None:
    """Count core-seconds of running jobs for their users, and let older usage decay."""
    now = s.clock[NOW]
    passed = now - s.clock[CHARGED]
    if passed <= 0:
        return
    s.clock[CHARGED] = now
    decay = 0.5 ** (passed / s.clock[HALF_LIFE])
    # What is used in the meantime decays, too: the mean of the decay over the time.
    mean = (1.0 - decay) * s.clock[HALF_LIFE] / (np.log(2.0) * passed)
    for user in range(len(s.users)):
        s.users[user, U_USAGE] *= decay
    for p in range(len(s.part_values)):
        for place in range(s.parts[p, P_RUN_AT], s.parts[p, P_RUN_AT] + s.parts[p, P_RUN_COUNT]):
            o = s.run_options[place]
            i = s.options[o, O_JOB]
            used = min(passed, now - s.moments[i, T_START])
            s.users[s.jobs[i, J_USER], U_USAGE] += (
                s.need[o, 0] * s.options[o, O_UNITS] * used * mean
            )


def charge_ended(s: State, o: int) -> None:
    """Count what a job that ends now used since usage was last counted."""
    if not s.counters[MULTIFACTOR]:
        return
    i = s.options[o, O_JOB]
    since = max(s.moments[i, T_START], s.clock[CHARGED])
    s.users[s.jobs[i, J_USER], U_USAGE] += (
        s.need[o, 0] * s.options[o, O_UNITS] * (s.clock[NOW] - since)
    )


def priority_of(s: State, o: int, total: float, cores: float) -> float:
    """Return the weighted sum of factors for one option; ``total`` is all users' usage."""
    i = s.options[o, O_JOB]
    user = s.jobs[i, J_USER]
    age = min(1.0, (s.clock[NOW] - s.moments[i, T_ELIGIBLE]) / s.clock[MAX_AGE])
    used = s.users[user, U_USAGE] / total if total > 0 else 0.0
    fair = 2.0 ** (-used / s.users[user, U_SHARES])
    size = s.need[o, 0] * s.options[o, O_UNITS] / cores
    weights = s.clock
    return float(
        weights[AGE] * age
        + weights[FAIR] * fair
        + weights[SIZE] * size
        + weights[PARTITION] * s.part_values[s.options[o, O_PART], V_PRIORITY]
    )


def cores_of(s: State) -> float:
    """Return the cores of the whole cluster, at least 1."""
    cores = 0.0
    for u in range(len(s.capacity)):
        cores += s.capacity[u, 0]
    return max(cores, 1.0)


def rank_one(s: State, o: int) -> None:
    """Compute the priority of an option that comes into the queue."""
    if s.counters[MULTIFACTOR]:
        s.spans[o, S_PRIORITY] = priority_of(s, o, s.users[:, U_USAGE].sum(), cores_of(s))


def rank(s: State) -> None:
    """Compute priorities and order all queues anew, where it is time."""
    if not s.counters[MULTIFACTOR] or s.clock[NOW] < s.clock[RANKED] + s.clock[PERIOD]:
        return
    s.clock[RANKED] = s.clock[NOW]
    charge(s)
    total, cores = s.users[:, U_USAGE].sum(), cores_of(s)
    for q in range(s.counters[QUEUES]):
        n = 0
        o = s.parts[q, P_HEAD]
        while o >= 0:
            n += 1
            o = s.options[o, O_AFTER_ME]
        if n < 2:
            continue
        members = np.empty(n, np.int64)
        values = np.empty(n, np.float64)
        came = np.empty(n, np.float64)
        k = 0
        o = s.parts[q, P_HEAD]
        while o >= 0:
            s.spans[o, S_PRIORITY] = priority_of(s, o, total, cores)
            members[k], values[k], came[k] = (
                o,
                -s.spans[o, S_PRIORITY],
                s.moments[s.options[o, O_JOB], T_ELIGIBLE],
            )
            k += 1
            o = s.options[o, O_AFTER_ME]
        by_time = np.argsort(came, kind="mergesort")
        members, values = members[by_time], values[by_time]
        members = members[np.argsort(values, kind="mergesort")]
        link(s, q, members)
        s.parts[q, P_DIRTY] = 1


def link(s: State, q: int, members: Ints) -> None:
    """Make a queue of these options, in this order."""
    last = -1
    for o in members:
        s.options[o, O_BEFORE_ME] = last
        if last >= 0:
            s.options[last, O_AFTER_ME] = o
        else:
            s.parts[q, P_HEAD] = o
        last = o
    s.options[last, O_AFTER_ME] = -1
    s.parts[q, P_TAIL] = last
    s.parts[q, P_FRESH] = -1
