"""The free resources of a pool from now on, as segments of time beside running and reserved jobs.

This is the *profile* of backfill schedulers (Mu'alem and Feitelson 2001), used by replanned
backfill. Functions that are called for many jobs in one pass take the pool's arrays
(``FreeProfile``), because passing the whole state takes compiled code 0.1 us.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.state import State, running_of
from berth.policies.replay.trace import Floats, Ints


class FreeProfile(NamedTuple):
    """One pool's rows of the arrays of ``State``."""

    counts: Ints
    """[P_]"""
    time: Floats
    """[segments] begin of each segment."""
    free: Ints
    """[segments][resources] free in the segment."""


def profile_of(s: State, p: int) -> FreeProfile:
    """Return the profile of partition ``p``'s pool."""
    return FreeProfile(s.parts[p], s.seg_time[p], s.seg_free[p])


def segment_from(f: FreeProfile, moment: float) -> int:
    """Return the index of the first segment that begins at ``moment`` or later; their number if
    none does.
    """
    low, high = 0, f.counts[at.P_SEG_COUNT]
    while low < high:
        middle = (low + high) // 2
        if f.time[middle] < moment:
            low = middle + 1
        else:
            high = middle
    return int(low)


def lacks(free: Ints, j: int, need: Ints) -> bool:
    """Return whether row ``j`` of ``free`` has less than the need of some resource."""
    for r in range(len(need)):
        if free[j, r] < need[r]:
            return True
    return False


def cut(f: FreeProfile, moment: float) -> int:
    """Return the index of the segment that begins at ``moment``; a segment is split there if
    necessary.
    """
    low = segment_from(f, moment)
    n = f.counts[at.P_SEG_COUNT]
    if low < n and f.time[low] == moment:
        return low
    for i in range(n, low, -1):
        f.time[i] = f.time[i - 1]
        for r in range(f.free.shape[1]):
            f.free[i, r] = f.free[i - 1, r]
    f.time[low] = moment
    if low > 0:
        for r in range(f.free.shape[1]):
            f.free[low, r] = f.free[low - 1, r]
    f.counts[at.P_SEG_COUNT] = n + 1
    return int(low)


def take(f: FreeProfile, need: Ints, begin: float, end: float) -> None:
    """Subtract a need from what is free in ``[begin, end)``."""
    if not begin < end:
        return
    first = cut(f, begin)
    last = cut(f, end)
    for i in range(first, last):
        for r in range(len(need)):
            f.free[i, r] -= need[r]


def find(f: FreeProfile, need: Ints, now: float, lasts: float) -> float:
    """Return the first moment from ``now`` on with ``need`` free in the pool for ``lasts``
    seconds.
    """
    n = f.counts[at.P_SEG_COUNT]
    begin = now
    j = 0
    while j < n and f.time[j] < begin + lasts:
        enough = not lacks(f.free, j, need)
        j += 1
        if not enough:
            begin = f.time[j] if j < n else np.inf
    return float(begin)


def rebuild(s: State, p: int, now: float) -> None:
    """Rebuild the profile from the running jobs alone; all reservations of waiting jobs are
    dropped.
    """
    f = profile_of(s, p)
    f.counts[at.P_SEG_COUNT] = 1
    f.time[0] = now
    u = s.part_units[f.counts[at.P_AT]]
    for r in range(s.need.shape[1]):
        f.free[0, r] = s.capacity[u, r]
    for place in running_of(s.parts, p):
        o = s.run_options[place]
        take(f, s.need[o], now, s.spans[o, at.S_PLAN_END])
    o = f.counts[at.P_HEAD]
    while o >= 0:
        s.spans[o, at.S_RESERVED] = np.inf
        o = s.options[o, at.O_AFTER_ME]
