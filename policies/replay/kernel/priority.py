"""Multifactor priority: age, and fair share with decayed usage.

It follows Slurm's ``priority/multifactor`` plugin with the classic fair-share factor ``2 ** -(usage
/ shares)`` and exponential decay of usage by a half-life.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.state import State, running_of
from berth.policies.replay.trace import Ints


def charge(s: State) -> None:
    """Add the core-seconds of running jobs to their users' usage, and let older usage decay."""
    now = s.clock[at.NOW]
    passed = now - s.clock[at.CHARGED]
    if passed <= 0:
        return
    s.clock[at.CHARGED] = now
    decay = 0.5 ** (passed / s.clock[at.HALF_LIFE])
    # Usage since the last charge decays, too: multiply by the mean decay over that time.
    mean = (1.0 - decay) * s.clock[at.HALF_LIFE] / (np.log(2.0) * passed)
    for user in range(len(s.users)):
        s.users[user, at.U_USAGE] *= decay
    for p in range(len(s.part_values)):
        for place in running_of(s.parts, p):
            o = s.run_options[place]
            i = s.options[o, at.O_JOB]
            used = min(passed, now - s.moments[i, at.T_START])
            s.users[s.jobs[i, at.J_USER], at.U_USAGE] += (
                s.need[o, 0] * s.options[o, at.O_UNITS] * used * mean
            )


def charge_ended(s: State, o: int) -> None:
    """Add to the user's usage the core-seconds since the last charge of a job that ends now."""
    if not s.counters[at.MULTIFACTOR]:
        return
    i = s.options[o, at.O_JOB]
    since = max(s.moments[i, at.T_START], s.clock[at.CHARGED])
    s.users[s.jobs[i, at.J_USER], at.U_USAGE] += (
        s.need[o, 0] * s.options[o, at.O_UNITS] * (s.clock[at.NOW] - since)
    )


def priority_of(s: State, o: int, total: float) -> float:
    """Return the priority of option ``o``: the weighted sum of its factors; ``total``: usage of all
    users."""
    i = s.options[o, at.O_JOB]
    user = s.jobs[i, at.J_USER]
    age = min(1.0, (s.clock[at.NOW] - s.moments[i, at.T_ELIGIBLE]) / s.clock[at.MAX_AGE])
    used = s.users[user, at.U_USAGE] / total if total > 0 else 0.0
    fair = 2.0 ** (-used / s.users[user, at.U_SHARES])
    return float(s.clock[at.AGE] * age + s.clock[at.FAIR] * fair)


def rank_one(s: State, o: int) -> None:
    """Compute the priority of an option that enters the queue."""
    if s.counters[at.MULTIFACTOR]:
        s.spans[o, at.S_PRIORITY] = priority_of(s, o, s.users[:, at.U_USAGE].sum())


def rank(s: State) -> None:
    """Recompute all priorities and sort all queues, if the period since the last time has
    passed."""
    if not s.counters[at.MULTIFACTOR] or s.clock[at.NOW] < s.clock[at.RANKED] + s.clock[at.PERIOD]:
        return
    s.clock[at.RANKED] = s.clock[at.NOW]
    charge(s)
    total = s.users[:, at.U_USAGE].sum()
    for q in range(s.counters[at.QUEUES]):
        n = 0
        o = s.parts[q, at.P_HEAD]
        while o >= 0:
            n += 1
            o = s.options[o, at.O_AFTER_ME]
        if n < 2:
            continue
        members = np.empty(n, np.int64)
        values = np.empty(n, np.float64)
        came = np.empty(n, np.float64)
        k = 0
        o = s.parts[q, at.P_HEAD]
        while o >= 0:
            s.spans[o, at.S_PRIORITY] = priority_of(s, o, total)
            members[k], values[k], came[k] = (
                o,
                -s.spans[o, at.S_PRIORITY],
                s.moments[s.options[o, at.O_JOB], at.T_ELIGIBLE],
            )
            k += 1
            o = s.options[o, at.O_AFTER_ME]
        by_time = np.argsort(came, kind="mergesort")
        members, values = members[by_time], values[by_time]
        members = members[np.argsort(values, kind="mergesort")]
        link(s, q, members)
        s.parts[q, at.P_DIRTY] = 1


def link(s: State, q: int, members: Ints) -> None:
    """Make the options, in this order, the linked list of queue ``q``."""
    last = -1
    for o in members:
        s.options[o, at.O_BEFORE_ME] = last
        if last >= 0:
            s.options[last, at.O_AFTER_ME] = o
        else:
            s.parts[q, at.P_HEAD] = o
        last = o
    s.options[last, at.O_AFTER_ME] = -1
    s.parts[q, at.P_TAIL] = last
    s.parts[q, at.P_FRESH] = -1
