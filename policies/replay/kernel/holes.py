"""Which reservations in a pool can begin earlier: windows of freed room, and the jobs that may
gain.

Conservative backfill moves every reservation to its earliest possible time whenever something ends
(*compression*, Mu'alem and Feitelson 2001). Examining every waiting job each time is too slow.
Therefore the time windows in which room was freed (*holes*) are recorded, and only jobs that may
gain by them are examined (a rule of Berth's own; tests compare it with full compression). Jobs
and holes get serial numbers in the order in which they were examined or appeared: a job has been
examined with all holes of lower numbers.
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.claims import needs_no_less, needs_no_more, put_tried
from berth.policies.replay.kernel.profile import FreeProfile, lacks, profile_of, segment_from, take
from berth.policies.replay.kernel.state import State
from berth.policies.replay.trace import Floats, Ints


def pass_over(
    f: FreeProfile, options: Ints, spans: Floats, need: Ints, values: Floats, o: int, now: float
) -> int:
    """Return the first option from ``o`` on that must be examined; -1: none.

    Such an option has no reservation, one that begins now, or one that could begin earlier.
    ``values``: the partition's row of ``part_values``.
    """
    while o >= 0:
        was = spans[o, at.S_RESERVED]
        if was <= now or was == np.inf:
            return o
        if may_gain(f, options, spans, need, o) and not stays(f, options, spans, need, o):
            return o
        f.counts[at.P_PLACES] += 1
        options[o, at.O_PLACE] = f.counts[at.P_PLACES]
        values[at.V_WAKE] = min(values[at.V_WAKE], was)
        o = options[o, at.O_AFTER_ME]
    return -1


def find_earlier(s: State, f: FreeProfile, o: int, now: float) -> float:
    """Return the earliest start of option ``o`` for its planned time, given its present
    reservation.

    Before the holes appeared, no earlier start was possible. So a new start must let the job run
    within one of the holes; otherwise the present start is returned.
    """
    was, lasts = s.spans[o, at.S_RESERVED], s.spans[o, at.S_PLAN]
    first, last = np.inf, -np.inf
    for h in range(f.counts[at.P_HOLE_COUNT]):
        if fits_hole(f, s.options, s.spans, s.need, o, h):
            first = min(first, f.hole_times[h, at.H_BEGIN])
            last = max(last, f.hole_times[h, at.H_END])
    time, free, need = f.time, f.free, s.need[o]
    own = segment_from(f, was)  # from here on, the job's own reservation provides the room
    j = segment_from(f, first - lasts) if first - lasts > now else 0
    while j < own:
        while j < own and lacks(free, j, need):
            j += 1
        if j == own or time[j] >= last:
            return float(was)
        begin = time[j]
        j += 1
        while j < own and time[j] < begin + lasts and not lacks(free, j, need):
            j += 1
        if j == own or time[j] >= begin + lasts:
            return float(begin)
    return float(was)


def move(s: State, f: FreeProfile, o: int, begin: float) -> None:
    """Move the option's reservation to ``begin``, which is earlier; only the differing times
    change.
    """
    was, lasts = s.spans[o, at.S_RESERVED], s.spans[o, at.S_PLAN]
    need = s.need[o]
    take(f, need, begin, min(begin + lasts, was), 1)
    take(f, need, max(begin + lasts, was), was + lasts, -1)
    s.spans[o, at.S_RESERVED] = begin
    add_hole(f, max(begin + lasts, was), was + lasts, float(f.counts[at.P_PLACES]))


def give_back(s: State, p: int, o: int, begin: float, lasts: float) -> None:
    """Free the rest of a reservation of a job that ended before its plan or started by another
    option.
    """
    f = profile_of(s, p)
    take(f, s.need[o], begin, begin + lasts, -1)
    add_hole(f, begin, begin + lasts, np.inf)


def add_hole(f: FreeProfile, begin: float, end: float, place: float) -> None:
    """Record that room was freed in ``[begin, end)``, with the most that is free of each
    resource there.

    ``place``: serial number; options examined later in this pass have already seen the hole. A hole
    that begins no earlier than another and has no more room is merged into it.
    """
    h = f.counts[at.P_HOLE_COUNT]
    if h == len(f.hole_times):
        h -= 1
        begin = min(begin, f.hole_times[h, at.H_BEGIN])
        end = max(end, f.hole_times[h, at.H_END])
        place = max(place, f.hole_times[h, at.H_PLACE])
    f.hole_times[h, at.H_BEGIN] = begin
    f.hole_times[h, at.H_END] = end
    f.hole_times[h, at.H_PLACE] = place
    for r in range(f.free.shape[1]):
        f.hole_free[h, r] = 0
    n = f.counts[at.P_SEG_COUNT]
    i = segment_from(f, begin)
    if i > 0 and (i == n or f.time[i] > begin):
        i -= 1
    while i < n and f.time[i] < end:
        for r in range(f.free.shape[1]):
            f.hole_free[h, r] = max(f.hole_free[h, r], f.free[i, r])
        i += 1
    help_tried(f, h)
    for other in range(f.counts[at.P_HOLE_OLD], h):
        if covers(f, other, h):
            outlast(f, other, h)
            return
    count = f.counts[at.P_HOLE_OLD]
    for other in range(f.counts[at.P_HOLE_OLD], h):
        if covers(f, h, other):
            outlast(f, h, other)
        else:
            copy_hole(f, other, count)
            count += 1
    copy_hole(f, h, count)
    f.counts[at.P_HOLE_COUNT] = count + 1


def help_tried(f: FreeProfile, h: int) -> None:
    """Note in the rows of ``tried`` that the hole appeared after their jobs had been tried."""
    for k in range(f.counts[at.P_TRIED]):
        f.tried_spans[k, at.E_HOLE] = min(f.tried_spans[k, at.E_HOLE], f.hole_times[h, at.H_BEGIN])
        for r in range(f.free.shape[1]):
            f.tried[k, at.R_HOLE + r] = max(f.tried[k, at.R_HOLE + r], f.hole_free[h, r])


def covers(f: FreeProfile, h: int, other: int) -> bool:
    """Return whether each job that could gain by hole ``other`` could also gain by hole ``h``."""
    if lacks(f.hole_free, h, f.hole_free[other]):
        return False
    return bool(f.hole_times[h, at.H_BEGIN] <= f.hole_times[other, at.H_BEGIN])


def outlast(f: FreeProfile, h: int, other: int) -> None:
    """Extend hole ``h`` so that it also stands for hole ``other``."""
    for column in (at.H_END, at.H_PLACE):
        f.hole_times[h, column] = max(f.hole_times[h, column], f.hole_times[other, column])


def copy_hole(f: FreeProfile, h: int, to: int) -> None:
    """Copy hole ``h`` to row ``to``."""
    for column in range(f.hole_times.shape[1]):
        f.hole_times[to, column] = f.hole_times[h, column]
    for r in range(f.hole_free.shape[1]):
        f.hole_free[to, r] = f.hole_free[h, r]


def forget_old_holes(f: FreeProfile) -> None:
    """Drop the holes that existed before this pass, because every waiting job has been examined
    with them.
    """
    old = f.counts[at.P_HOLE_OLD]
    for h in range(old, f.counts[at.P_HOLE_COUNT]):
        copy_hole(f, h, h - old)
    f.counts[at.P_HOLE_COUNT] -= old
    f.counts[at.P_HOLE_OLD] = 0


def fits_hole(f: FreeProfile, options: Ints, spans: Floats, need: Ints, o: int, h: int) -> bool:
    """Return whether hole ``h`` is new to option ``o``, begins before its reserved end, and has
    room.
    """
    if (
        f.hole_times[h, at.H_PLACE] <= options[o, at.O_PLACE]
        or f.hole_times[h, at.H_BEGIN] >= spans[o, at.S_RESERVED] + spans[o, at.S_PLAN]
    ):
        return False
    return not lacks(f.hole_free, h, need[o])


def may_gain(f: FreeProfile, options: Ints, spans: Floats, need: Ints, o: int) -> bool:
    """Return whether some hole could let option ``o`` start before its reservation."""
    for h in range(f.counts[at.P_HOLE_COUNT]):
        if fits_hole(f, options, spans, need, o, h):
            return True
    return False


def stays(f: FreeProfile, options: Ints, spans: Floats, need: Ints, o: int) -> bool:
    """Return whether option ``o`` cannot begin earlier, because an easier one could not in this
    pass.

    Easier means that the option needs no more, runs no longer and is reserved no earlier. A job
    whose new start would overlap its own reservation moves only if the segment just before it is
    free, too.
    """
    was = spans[o, at.S_RESERVED]
    worse = False
    for k in range(f.counts[at.P_TRIED]):
        if (
            spans[o, at.S_PLAN] >= f.tried_spans[k, at.E_PLAN]
            and was <= f.tried_spans[k, at.E_LIMIT]
            and needs_no_less(f.tried, k, need, o)
            and not gains_since(f, spans, need, k, o)
        ):
            worse = True
            break
    if not worse:
        return False
    for h in range(f.counts[at.P_HOLE_COUNT]):
        inside = f.hole_times[h, at.H_BEGIN] < was <= f.hole_times[h, at.H_END]
        if inside and fits_hole(f, options, spans, need, o, h):
            return lacks(f.free, segment_from(f, was) - 1, need[o])
    return True


def gains_since(f: FreeProfile, spans: Floats, need: Ints, k: int, o: int) -> bool:
    """Return whether ``o`` could begin earlier by a hole that appeared after tried row ``k`` was
    written.
    """
    if f.tried_spans[k, at.E_HOLE] >= spans[o, at.S_RESERVED] + spans[o, at.S_PLAN]:
        return False
    for r in range(need.shape[1]):
        if f.tried[k, at.R_HOLE + r] < need[o, r]:
            return False
    return True


def remember_it_stays(s: State, f: FreeProfile, o: int) -> None:
    """Record in ``tried`` that option ``o`` could not begin earlier.

    It replaces a row of a harder option, or any row if all are in use.
    """
    rows, plan, was = len(f.tried), s.spans[o, at.S_PLAN], s.spans[o, at.S_RESERVED]
    row = f.counts[at.P_TRIED]
    if row == rows:
        row = f.counts[at.P_PLACES] % rows
    for k in range(f.counts[at.P_TRIED]):
        if (
            plan <= f.tried_spans[k, at.E_PLAN]
            and was >= f.tried_spans[k, at.E_LIMIT]
            and needs_no_more(f.tried, k, s.need, o)
        ):
            row = k
            break
    f.counts[at.P_TRIED] = max(f.counts[at.P_TRIED], row + 1)
    put_tried(f.tried, f.tried_spans, row, s.need[o], s.options[o, at.O_UNITS], plan, was)
