"""Claims on nodes: the node times that running jobs hold or that are reserved for later.

Claim ``k`` is on node ``claims[k, C_ALLOC]`` for the time in ``claim_times[k]``; the claims of a
node form a linked list. Nodes are chosen first fit, in the partition's order. ``tried`` records,
for jobs that found no room in this pass, what each needs per node and how long it runs. A job that
needs at least as much for at least as long is not tried (a rule of Berth's own).
"""

from __future__ import annotations

import numpy as np

from berth.policies.replay.kernel import state as at
from berth.policies.replay.kernel.state import State, claims_of, options_of, units_of
from berth.policies.replay.trace import Floats, Ints


def lacks(free: Ints, j: int, need: Ints) -> bool:
    """Return whether row ``j`` of ``free`` has less than the need of some resource."""
    for r in range(len(need)):
        if free[j, r] < need[r]:
            return True
    return False


def claim(s: State, k: int, begin: float, end: float) -> None:
    """Add claim ``k`` to its node's list, for the time ``[begin, end)``."""
    u = s.claims[k, at.C_ALLOC]
    s.claim_times[k, at.D_BEGIN] = begin
    s.claim_times[k, at.D_END] = end
    head = s.nodes[u, at.N_HEAD]
    s.claims[k, at.C_NEXT] = head
    s.claims[k, at.C_BEFORE] = -1
    if head >= 0:
        s.claims[head, at.C_BEFORE] = k
    s.nodes[u, at.N_HEAD] = k


def unclaim(s: State, k: int) -> None:
    """Remove claim ``k`` from its node's list."""
    before, behind = s.claims[k, at.C_BEFORE], s.claims[k, at.C_NEXT]
    if before >= 0:
        s.claims[before, at.C_NEXT] = behind
    else:
        s.nodes[s.claims[k, at.C_ALLOC], at.N_HEAD] = behind
    if behind >= 0:
        s.claims[behind, at.C_BEFORE] = before


def fits_at(s: State, u: int, o: int, moment: float) -> bool:
    """Return whether node ``u`` has room for option ``o`` at a moment, beside all claims."""
    for r in range(s.need.shape[1]):
        left = s.capacity[u, r] - s.need[o, r]
        k = s.nodes[u, at.N_HEAD]
        while k >= 0:
            if s.claim_times[k, at.D_BEGIN] <= moment < s.claim_times[k, at.D_END]:
                owner = s.claims[k, at.C_OWNER]
                left -= s.capacity[u, r] if owner < 0 else s.need[owner, r]
            k = s.claims[k, at.C_NEXT]
        # A wholly claimed node has no room, even for an option that needs nothing.
        if left < 0:
            return False
    return True


def has_room(s: State, u: int, o: int, begin: float) -> bool:
    """Return whether option ``o`` fits on node ``u`` from ``begin`` for its planned time.

    For claims without owner (site reservations), the option's time limit is used instead (not when
    replanned).
    """
    if not fits_at(s, u, o, begin):
        return False
    end = begin + s.spans[o, at.S_PLAN] + s.clock[at.RESOLUTION]
    latest = end
    if s.counters[at.BACKFILL] != 2 and s.spans[o, at.S_LIMIT] < np.inf:
        latest = begin + s.spans[o, at.S_LIMIT]
    k = s.nodes[u, at.N_HEAD]
    while k >= 0:
        opens = s.claim_times[k, at.D_BEGIN]
        if s.claims[k, at.C_OWNER] < 0:
            if begin < s.claim_times[k, at.D_END] and opens < latest:
                return False
        elif begin < opens < end and not fits_at(s, u, o, opens):
            return False
        k = s.claims[k, at.C_NEXT]
    return True


def hopeless(s: State, p: int, o: int) -> bool:
    """Return whether an option found no room in this pass that needs and lasts no more than
    ``o``.
    """
    for k in range(s.parts[p, at.P_TRIED]):
        if (
            s.options[o, at.O_UNITS] >= s.tried[p, k, at.R_UNITS]
            and s.spans[o, at.S_PLAN] >= s.tried_spans[p, k, at.E_PLAN]
            and s.spans[o, at.S_LIMIT] >= s.tried_spans[p, k, at.E_LIMIT]
            and needs_no_less(s.tried[p], k, s.need, o)
        ):
            return True
    return False


def remember(s: State, p: int, o: int, full: bool) -> None:
    """Record that option ``o`` found no room now; ``full``: not even if it were arbitrarily
    short.
    """
    plan = 0.0 if full else s.spans[o, at.S_PLAN]
    limit = 0.0 if full else s.spans[o, at.S_LIMIT]
    row = s.parts[p, at.P_TRIED]
    for k in range(s.parts[p, at.P_TRIED]):
        if (
            s.options[o, at.O_UNITS] <= s.tried[p, k, at.R_UNITS]
            and plan <= s.tried_spans[p, k, at.E_PLAN]
            and limit <= s.tried_spans[p, k, at.E_LIMIT]
            and needs_no_more(s.tried[p], k, s.need, o)
        ):
            row = k
            break
    if row < s.tried.shape[1]:
        s.parts[p, at.P_TRIED] = max(s.parts[p, at.P_TRIED], row + 1)
        put_tried(
            s.tried[p], s.tried_spans[p], row, s.need[o], s.options[o, at.O_UNITS], plan, limit
        )


def choose(s: State, o: int, begin: float, now: float) -> bool:
    """Write the first nodes with room for option ``o`` from ``begin`` into its claims; False:
    too few.
    """
    p = s.options[o, at.O_PART]
    if begin == now and hopeless(s, p, o):
        return False
    first = s.options[o, at.O_ALLOC_AT]
    chosen = able = 0
    for place in units_of(s.parts, p):
        u = s.part_units[place]
        if s.nodes[u, at.N_BLOCKED]:
            continue
        if begin == now:
            if lacks(s.free, u, s.need[o]):
                continue
            able += 1
        if has_room(s, u, o, begin):
            s.claims[first + chosen, at.C_ALLOC] = u
            chosen += 1
            if chosen == s.options[o, at.O_UNITS]:
                return True
    if begin == now:
        remember(s, p, o, able < s.options[o, at.O_UNITS])
    return False


def enough(left: Ints, u: int) -> bool:
    """Return whether no resource in row ``u`` is negative."""
    for r in range(left.shape[1]):
        if left[u, r] < 0:
            return False
    return True


def room_from(s: State, o: int, now: float) -> float:
    """Return the first moment at which enough nodes have room for ``o``; infinite: never.

    Only claims that are active at ``now`` are considered, not reservations for later.
    """
    p = s.options[o, at.O_PART]
    left = np.empty((len(s.free), s.need.shape[1]), np.int64)
    ending = np.empty(len(s.times), np.int64)
    n = able = 0
    for place in units_of(s.parts, p):
        u = s.part_units[place]
        for r in range(s.need.shape[1]):
            left[u, r] = s.capacity[u, r] - s.need[o, r]
        k = s.nodes[u, at.N_HEAD]
        while k >= 0:
            if s.claim_times[k, at.D_BEGIN] <= now < s.claim_times[k, at.D_END]:
                owner = s.claims[k, at.C_OWNER]
                for r in range(s.need.shape[1]):
                    left[u, r] -= s.capacity[u, r] if owner < 0 else s.need[owner, r]
                s.times[n], ending[n] = s.claim_times[k, at.D_END], k
                n += 1
            k = s.claims[k, at.C_NEXT]
        able += enough(left, u)
    if able >= s.options[o, at.O_UNITS]:
        return now
    for each in np.argsort(s.times[:n]):
        k = ending[each]
        u, owner = s.claims[k, at.C_ALLOC], s.claims[k, at.C_OWNER]
        had = enough(left, u)
        for r in range(s.need.shape[1]):
            left[u, r] += s.capacity[u, r] if owner < 0 else s.need[owner, r]
        if not had and enough(left, u):
            able += 1
            if able == s.options[o, at.O_UNITS]:
                return float(s.times[each])
    return float(np.inf)


def earliest(s: State, o: int, now: float) -> float:
    """Return when option ``o`` can start, and write its nodes into its claims; infinite: never.

    The candidate moments are the ends of claims, as in conservative backfill (Mu'alem and
    Feitelson, IEEE TPDS 12(6), 2001).
    """
    p = s.options[o, at.O_PART]
    # Not before enough nodes have room when reservations for later are ignored.
    first = room_from(s, o, now)
    if first == np.inf:
        return first
    if choose(s, o, first, now):
        return first
    n = 0
    for place in units_of(s.parts, p):
        k = s.nodes[s.part_units[place], at.N_HEAD]
        while k >= 0:
            if s.claim_times[k, at.D_END] > first:
                s.times[n] = s.claim_times[k, at.D_END]
                n += 1
            k = s.claims[k, at.C_NEXT]
    moments = np.sort(s.times[:n])
    last = first
    for moment in moments:
        if moment > last and choose(s, o, moment, now):
            return float(moment)
        last = moment
    return float(np.inf)


def reserve(s: State, o: int, begin: float) -> None:
    """Reserve the option's chosen nodes from ``begin``, whole ones where ``WHOLE`` is set."""
    for k in claims_of(s.options, o):
        if s.counters[at.WHOLE]:
            s.claims[k, at.C_OWNER] = -1
        claim(s, k, begin, begin + s.spans[o, at.S_PLAN] + s.clock[at.RESOLUTION])
    s.spans[o, at.S_RESERVED] = begin


def forget(s: State, i: int) -> None:
    """Drop the reservation of a waiting job."""
    had = False
    for o in options_of(s.jobs, i):
        if s.spans[o, at.S_RESERVED] < np.inf:
            for k in claims_of(s.options, o):
                unclaim(s, k)
                s.claims[k, at.C_OWNER] = o
            s.spans[o, at.S_RESERVED] = np.inf
            had = True
    if had:
        try_anew(s)


def try_anew(s: State) -> None:
    """Clear the record of jobs that found no room, because there may be room again."""
    for p in range(len(s.part_values)):
        s.parts[p, at.P_TRIED] = 0


def needs_no_less(tried: Ints, k: int, need: Ints, o: int) -> bool:
    """Return whether option ``o`` needs at least as much of each resource as tried row ``k``."""
    for r in range(need.shape[1]):
        if need[o, r] < tried[k, r]:
            return False
    return True


def needs_no_more(tried: Ints, k: int, need: Ints, o: int) -> bool:
    """Return whether option ``o`` needs at most as much of each resource as tried row ``k``."""
    for r in range(need.shape[1]):
        if need[o, r] > tried[k, r]:
            return False
    return True


def put_tried(
    tried: Ints, spans: Floats, k: int, need: Ints, units: int, plan: float, limit: float
) -> None:
    """Write into tried row ``k`` the need per node, number of nodes, planned time and time
    limit.
    """
    for r in range(len(need)):
        tried[k, r] = need[r]
    tried[k, at.R_UNITS] = units
    spans[k, at.E_PLAN] = plan
    spans[k, at.E_LIMIT] = limit
