"""What is free in a pool from now on: segments of time, with running and reserved jobs taken off.

Conservative backfill works on it. Windows in which room appeared (``hole``) are remembered, so
that only jobs which may gain by them are looked at again.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.state import (
    E_LIMIT,
    E_PLAN,
    H_BEGIN,
    H_END,
    O_AFTER_ME,
    P_AT,
    P_HEAD,
    P_HOLE_COUNT,
    P_RUN_AT,
    P_RUN_COUNT,
    P_SEG_COUNT,
    P_TRIED,
    S_PLAN,
    S_PLAN_END,
    S_RESERVED,
    State,
)


def cut(s: State, p: int, moment: float) -> int:
    """The segment that begins at ``moment``, made where there is none."""
    low, high = 0, s.parts[p, P_SEG_COUNT]
    while low < high:
        middle = (low + high) // 2
        if s.seg_time[p, middle] < moment:
            low = middle + 1
        else:
            high = middle
    n = s.parts[p, P_SEG_COUNT]
    if low < n and s.seg_time[p, low] == moment:
        return int(low)
    i = n
    while i > low:
        s.seg_time[p, i] = s.seg_time[p, i - 1]
        for r in range(s.seg_free.shape[2]):
            s.seg_free[p, i, r] = s.seg_free[p, i - 1, r]
        i -= 1
    s.seg_time[p, low] = moment
    if low > 0:
        for r in range(s.seg_free.shape[2]):
            s.seg_free[p, low, r] = s.seg_free[p, low - 1, r]
    s.parts[p, P_SEG_COUNT] = n + 1
    return int(low)


def join(s: State, p: int, i: int) -> None:
    """Drop the segment where it is as the one before."""
    if i <= 0 or i >= s.parts[p, P_SEG_COUNT]:
        return
    for r in range(s.seg_free.shape[2]):
        if s.seg_free[p, i, r] != s.seg_free[p, i - 1, r]:
            return
    for j in range(i, s.parts[p, P_SEG_COUNT] - 1):
        s.seg_time[p, j] = s.seg_time[p, j + 1]
        for r in range(s.seg_free.shape[2]):
            s.seg_free[p, j, r] = s.seg_free[p, j + 1, r]
    s.parts[p, P_SEG_COUNT] -= 1


def take(s: State, p: int, o: int, begin: float, end: float, sign: int) -> None:
    """Take what option ``o`` needs off ``[begin, end)``; ``sign`` -1: give it back."""
    if not begin < end:
        return
    first = cut(s, p, begin)
    last = cut(s, p, end)
    for i in range(first, last):
        for r in range(s.need.shape[1]):
            s.seg_free[p, i, r] -= sign * s.need[o, r]
    join(s, p, last)
    join(s, p, first)


def take_all(s: State, p: int, begin: float, end: float) -> None:
    """Nothing is free in ``[begin, end)``."""
    if not begin < end:
        return
    first = cut(s, p, begin)
    last = cut(s, p, end)
    for i in range(first, last):
        for r in range(s.capacity.shape[1]):
            s.seg_free[p, i, r] = min(s.seg_free[p, i, r], 0)


def advance(s: State, p: int, now: float) -> None:
    """Forget what is past: the first segment begins now."""
    n = s.parts[p, P_SEG_COUNT]
    i = 0
    while i + 1 < n and s.seg_time[p, i + 1] <= now:
        i += 1
    if i > 0:
        for j in range(i, n):
            s.seg_time[p, j - i] = s.seg_time[p, j]
            for r in range(s.seg_free.shape[2]):
                s.seg_free[p, j - i, r] = s.seg_free[p, j, r]
        s.parts[p, P_SEG_COUNT] = n - i
    s.seg_time[p, 0] = now


def find(s: State, p: int, o: int, now: float, lasts: float) -> float:
    """The first moment from now at which the option has room for so long."""
    n = s.parts[p, P_SEG_COUNT]
    begin = now
    j = 0
    while j < n and s.seg_time[p, j] < begin + lasts:
        enough = True
        for r in range(s.need.shape[1]):
            if s.seg_free[p, j, r] < s.need[o, r]:
                enough = False
        j += 1
        if not enough:
            begin = s.seg_time[p, j] if j < n else np.inf
    return float(begin)


def find_earlier(s: State, p: int, o: int, now: float) -> float:
    """As ``find``, for a job that has a reservation, which does not stand in its own way."""
    n, lasts = s.parts[p, P_SEG_COUNT], s.spans[o, S_PLAN]
    was = s.spans[o, S_RESERVED]
    begin = now
    j = 0
    while j < n and begin < was and s.seg_time[p, j] < begin + lasts:
        own = was <= s.seg_time[p, j] < was + lasts
        enough = own
        if not own:
            enough = True
            for r in range(s.need.shape[1]):
                if s.seg_free[p, j, r] < s.need[o, r]:
                    enough = False
        j += 1
        if not enough:
            begin = s.seg_time[p, j] if j < n else np.inf
    return float(min(begin, was))


def add_hole(s: State, p: int, begin: float, end: float) -> None:
    """Room appeared in ``[begin, end)``; the most that is free there is remembered."""
    h = s.parts[p, P_HOLE_COUNT]
    merged = h == s.hole_times.shape[1]
    if merged:
        h -= 1
        begin = min(begin, s.hole_times[p, h, H_BEGIN])
        end = max(end, s.hole_times[p, h, H_END])
    else:
        s.parts[p, P_HOLE_COUNT] = h + 1
    s.hole_times[p, h, H_BEGIN] = begin
    s.hole_times[p, h, H_END] = end
    for r in range(s.seg_free.shape[2]):
        s.hole_free[p, h, r] = 0
    n = s.parts[p, P_SEG_COUNT]
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if s.seg_time[p, middle] <= begin:
            low = middle + 1
        else:
            high = middle
    i = max(low - 1, 0)
    while i < n and s.seg_time[p, i] < end:
        for r in range(s.seg_free.shape[2]):
            s.hole_free[p, h, r] = max(s.hole_free[p, h, r], s.seg_free[p, i, r])
        i += 1


def may_gain(s: State, p: int, o: int) -> bool:
    """Whether some room that appeared could let the job start earlier than it is reserved."""
    latest = s.spans[o, S_RESERVED] + s.spans[o, S_PLAN]
    for h in range(s.parts[p, P_HOLE_COUNT]):
        if s.hole_times[p, h, H_BEGIN] < latest:
            enough = True
            for r in range(s.need.shape[1]):
                if s.hole_free[p, h, r] < s.need[o, r]:
                    enough = False
            if enough:
                return True
    return False


def stays(s: State, p: int, o: int) -> bool:
    """Whether a job cannot be earlier, because one that asks no more, runs no longer and is
    reserved no earlier could not in this pass; by its own room it is moved only where what is just
    before its reservation is free, too."""
    was = s.spans[o, S_RESERVED]
    worse = False
    for k in range(s.parts[p, P_TRIED]):
        if (
            s.spans[o, S_PLAN] >= s.tried_spans[p, k, E_PLAN]
            and was <= s.tried_spans[p, k, E_LIMIT]
        ):
            worse = True
            for r in range(s.need.shape[1]):
                if s.need[o, r] < s.tried[p, k, r]:
                    worse = False
            if worse:
                break
    if not worse:
        return False
    low, high = 0, s.parts[p, P_SEG_COUNT]
    while low < high:
        middle = (low + high) // 2
        if s.seg_time[p, middle] < was:
            low = middle + 1
        else:
            high = middle
    for r in range(s.need.shape[1]):
        if s.seg_free[p, low - 1, r] < s.need[o, r]:
            return True
    return False


def remember_it_stays(s: State, p: int, o: int) -> None:
    """The job could not be earlier; an easier one replaces a harder one."""
    at = s.parts[p, P_TRIED]
    for k in range(s.parts[p, P_TRIED]):
        easier = (
            s.spans[o, S_PLAN] <= s.tried_spans[p, k, E_PLAN]
            and s.spans[o, S_RESERVED] >= s.tried_spans[p, k, E_LIMIT]
        )
        for r in range(s.need.shape[1]):
            if s.need[o, r] > s.tried[p, k, r]:
                easier = False
        if easier:
            at = k
            break
    if at == s.tried.shape[1]:
        return
    s.parts[p, P_TRIED] = max(s.parts[p, P_TRIED], at + 1)
    for r in range(s.need.shape[1]):
        s.tried[p, at, r] = s.need[o, r]
    s.tried_spans[p, at, E_PLAN] = s.spans[o, S_PLAN]
    s.tried_spans[p, at, E_LIMIT] = s.spans[o, S_RESERVED]


def give_back(s: State, p: int, o: int, begin: float, lasts: float) -> None:
    """A job ended before its plan, or started elsewhere: its time is free again."""
    take(s, p, o, begin, begin + lasts, -1)
    add_hole(s, p, begin, begin + lasts)


def rebuild(s: State, p: int, now: float) -> None:
    """From the running jobs alone; no waiting job has a reservation any more."""
    s.parts[p, P_SEG_COUNT] = 1
    s.seg_time[p, 0] = now
    s.parts[p, P_HOLE_COUNT] = 0
    u = s.part_units[s.parts[p, P_AT]]
    for r in range(s.need.shape[1]):
        s.seg_free[p, 0, r] = s.capacity[u, r]
    for place in range(s.parts[p, P_RUN_AT], s.parts[p, P_RUN_AT] + s.parts[p, P_RUN_COUNT]):
        o = s.run_options[place]
        take(s, p, o, now, s.spans[o, S_PLAN_END], 1)
    o = s.parts[p, P_HEAD]
    while o >= 0:
        s.spans[o, S_RESERVED] = np.inf
        o = s.options[o, O_AFTER_ME]
