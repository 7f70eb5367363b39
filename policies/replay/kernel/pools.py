"""Which waiting jobs of a pool start now: FCFS, EASY, conservative and replanned backfill."""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel.jobs import start
from berth.policies.replay.kernel.profile import (
    add_hole,
    advance,
    find,
    find_earlier,
    may_gain,
    rebuild,
    remember_it_stays,
    stays,
    take,
    take_all,
)
from berth.policies.replay.kernel.state import (
    BACKFILL_EVERY,
    H_BEGIN,
    H_END,
    NOW,
    O_AFTER_ME,
    P_AT,
    P_DELAYED,
    P_DIRTY,
    P_FRESH,
    P_HEAD,
    P_HOLE_COUNT,
    P_RUN_AT,
    P_RUN_COUNT,
    P_TRIED,
    RESOLUTION,
    S_PLAN,
    S_PLAN_END,
    S_RESERVED,
    V_BACKFILL,
    V_SHADOW,
    V_WAKE,
    WHOLE,
    State,
)


def fits(s: State, p: int, o: int) -> bool:
    """Whether there is room now."""
    u = s.part_units[s.parts[p, P_AT]]
    for r in range(s.need.shape[1]):
        if s.need[o, r] > s.free[u, r]:
            return False
    return True


def start_heads(s: State, p: int) -> int:
    """Start jobs in order until one does not fit; that one, or -1."""
    o = int(s.parts[p, P_HEAD])
    while o >= 0 and fits(s, p, o):
        start(s, o)
        o = int(s.parts[p, P_HEAD])
    return o


def foresee(s: State, p: int, o: int) -> None:
    """When the head can start by the planned ends, and what is left beside it then."""
    u = s.part_units[s.parts[p, P_AT]]
    for r in range(s.need.shape[1]):
        s.extra[p, r] = s.free[u, r] - s.need[o, r]
    s.part_values[p, V_SHADOW] = np.inf
    last = s.parts[p, P_RUN_AT] + s.parts[p, P_RUN_COUNT]
    place = s.parts[p, P_RUN_AT]
    while place < last:
        at = s.spans[s.run_options[place], S_PLAN_END]
        # All that ends at one moment is free then.
        while place < last and s.spans[s.run_options[place], S_PLAN_END] == at:
            for r in range(s.need.shape[1]):
                s.extra[p, r] += s.need[s.run_options[place], r]
            place += 1
        enough = True
        for r in range(s.need.shape[1]):
            if s.extra[p, r] < 0:
                enough = False
        if enough:
            s.part_values[p, V_SHADOW] = at
            return


def backfill(s: State, p: int, o: int) -> None:
    """Start those from ``o`` on that do not delay the head."""
    u = s.part_units[s.parts[p, P_AT]]
    now = s.clock[NOW]
    while o >= 0:
        behind = s.options[o, O_AFTER_ME]
        if fits(s, p, o):
            if now + s.spans[o, S_PLAN] <= s.part_values[p, V_SHADOW]:
                start(s, o)
            else:
                beside = True
                for r in range(s.need.shape[1]):
                    if s.need[o, r] > s.extra[p, r]:
                        beside = False
                if beside:
                    for r in range(s.need.shape[1]):
                        s.extra[p, r] -= s.need[o, r]
                    start(s, o)
            if s.free[u, 0] == 0 and s.capacity[u, 1] == 0:
                return  # every job here needs a core
        o = behind


def easy(s: State, p: int) -> None:
    """One pass; where nothing ended since the last, only new jobs are looked at."""
    fresh = s.parts[p, P_FRESH]
    full = s.parts[p, P_DIRTY] or s.parts[p, P_HEAD] == fresh
    s.parts[p, P_DIRTY] = 0
    s.parts[p, P_FRESH] = -1
    if not full:
        backfill(s, p, fresh)
        return
    o = start_heads(s, p)
    s.parts[p, P_FRESH] = -1
    if o >= 0:
        foresee(s, p, o)
        backfill(s, p, s.options[o, O_AFTER_ME])


def fcfs(s: State, p: int) -> None:
    """Start jobs in order."""
    s.parts[p, P_DIRTY] = 0
    s.parts[p, P_FRESH] = -1
    start_heads(s, p)
    s.parts[p, P_FRESH] = -1


def conservative(s: State, p: int) -> None:
    """Every waiting job has a reservation; one is made anew where it could be earlier."""
    now = s.clock[NOW]
    advance(s, p, now)
    fresh = s.parts[p, P_FRESH]
    again = s.parts[p, P_DIRTY]
    s.parts[p, P_DIRTY] = 0
    s.parts[p, P_FRESH] = -1
    if s.parts[p, P_DELAYED]:
        rebuild(s, p, now)
        s.parts[p, P_DELAYED] = 0
    s.parts[p, P_TRIED] = 0
    before = s.parts[p, P_HOLE_COUNT]  # what appears in this pass is for the next, too
    o = s.parts[p, P_HEAD] if again else fresh
    s.part_values[p, V_WAKE] = np.inf if again else s.part_values[p, V_WAKE]
    while o >= 0:
        behind = s.options[o, O_AFTER_ME]
        was = s.spans[o, S_RESERVED]
        begin = was
        if was == np.inf:
            begin = find(s, p, o, now, s.spans[o, S_PLAN])
            take(s, p, o, begin, begin + s.spans[o, S_PLAN], 1)
            s.spans[o, S_RESERVED] = begin
        elif was > now and may_gain(s, p, o) and not stays(s, p, o):
            begin = find_earlier(s, p, o, now)
            if begin == was:
                remember_it_stays(s, p, o)
            else:
                s.parts[p, P_TRIED] = 0
                take(s, p, o, was, was + s.spans[o, S_PLAN], -1)
                take(s, p, o, begin, begin + s.spans[o, S_PLAN], 1)
                s.spans[o, S_RESERVED] = begin
                add_hole(s, p, was, was + s.spans[o, S_PLAN])
        if begin <= now and fits(s, p, o):
            start(s, o)
        else:
            s.part_values[p, V_WAKE] = min(s.part_values[p, V_WAKE], begin)
        o = behind
    if again:
        kept = 0
        for h in range(min(before, s.hole_times.shape[1] - 1), s.parts[p, P_HOLE_COUNT]):
            s.hole_times[p, kept, H_BEGIN] = s.hole_times[p, h, H_BEGIN]
            s.hole_times[p, kept, H_END] = s.hole_times[p, h, H_END]
            for r in range(s.need.shape[1]):
                s.hole_free[p, kept, r] = s.hole_free[p, h, r]
            kept += 1
        s.parts[p, P_HOLE_COUNT] = kept


def replanned(s: State, p: int) -> None:
    """Start jobs in order; where a backfill is due, plan all that wait anew behind them."""
    now = s.clock[NOW]
    s.parts[p, P_DIRTY] = 0
    s.parts[p, P_DELAYED] = 0
    due = now >= s.part_values[p, V_BACKFILL]
    if due:
        s.part_values[p, V_BACKFILL] = now + s.clock[BACKFILL_EVERY]
    o = start_heads(s, p)
    s.parts[p, P_FRESH] = -1
    s.part_values[p, V_WAKE] = np.inf if o < 0 or due else s.part_values[p, V_BACKFILL]
    if o < 0 or not due:
        return
    rebuild(s, p, now)
    while o >= 0:
        behind = s.options[o, O_AFTER_ME]
        lasts = s.spans[o, S_PLAN] + s.clock[RESOLUTION]
        begin = find(s, p, o, now, lasts)
        if begin <= now and fits(s, p, o):
            take(s, p, o, begin, begin + lasts, 1)
            start(s, o)
        else:
            take(s, p, o, begin, begin + lasts, 1)
            if s.counters[WHOLE]:
                take_all(s, p, begin, begin + lasts)
            begin = max(begin, s.part_values[p, V_BACKFILL])
            s.part_values[p, V_WAKE] = min(s.part_values[p, V_WAKE], begin)
        o = behind
