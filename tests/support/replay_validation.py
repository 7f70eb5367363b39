"""Checks a replay against what every scheduler must keep; shares no code with the engine.

Quadratic in places: for tests and for samples, not for long traces.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from berth.policies.replay.replayed import Replayed
from berth.policies.replay.settings import Backfill
from berth.policies.replay.trace import Ints

MIB = 2**20


def problems(replayed: Replayed) -> list[str]:
    """What is wrong, in sentences; empty: nothing."""
    return [
        *_times(replayed),
        *_conserved(replayed),
        *_room(replayed),
        *_reservations(replayed),
    ]


def _ran(replayed: Replayed) -> list[int]:
    return [int(i) for i in np.flatnonzero(~np.isnan(replayed.end_s))]


def _times(r: Replayed) -> Iterator[str]:
    for i in _ran(r):
        if r.start_s[i] < r.trace.submit_s[i]:
            yield f"job {i} starts before it is submitted"
        parent = int(r.trace.after[i])
        if parent >= 0 and not r.refused[parent] and not r.start_s[i] >= r.end_s[parent]:
            yield f"job {i} starts before job {parent} ends, which it waits for"
        if r.end_s[i] - r.start_s[i] > r.limit_s[i] + 1e-6 * max(1.0, r.end_s[i]):
            yield f"job {i} runs past its limit"
        stayed = not r.moved[i] and not r.killed[i]
        lasted = r.end_s[i] - r.start_s[i]
        if stayed and not math.isclose(lasted, r.trace.runtime_s[i], abs_tol=1e-3):
            yield f"job {i} runs {lasted} s and not {r.trace.runtime_s[i]} s"


def _conserved(r: Replayed) -> Iterator[str]:
    if not r.counts.adds_up:
        yield f"the counts do not add up: {r.counts}"
    if r.counts.ended != len(_ran(r)):
        yield "jobs that ended are not as many as have an end"
    if int(np.sum(r.refused > 0)) != sum(r.counts.refused.values()):
        yield "refused jobs are not as many as counted"


def _held(r: Replayed, i: int) -> tuple[int, int, int]:
    return int(r.cores[i]), int(r.gpus[i]), int(r.memory_bytes[i]) // MIB


def _room(r: Replayed) -> Iterator[str]:
    """No unit is given out twice at any moment; moments are the starts, where use can only grow."""
    capacity = _capacity(r)
    events: dict[object, list[tuple[float, int, tuple[int, int, int]]]] = {}
    for i in _ran(r):
        if math.isnan(r.start_s[i]):
            continue
        units = _units(r, i)
        one = tuple(amount // len(units) for amount in _held(r, i))
        for unit in units:
            events.setdefault(unit, []).append((r.end_s[i], -1, one))  # type: ignore[arg-type]
            events[unit].append((r.start_s[i], 1, one))  # type: ignore[arg-type]
    for unit, found in events.items():
        used = [0, 0, 0]
        for moment, sign, amounts in sorted(found):
            used = [u + sign * amount for u, amount in zip(used, amounts, strict=True)]
            if sign > 0 and any(u > c for u, c in zip(used, capacity[unit], strict=True)):
                yield f"{unit} holds {used} at {moment} and has {capacity[unit]}"


def _units(r: Replayed, i: int) -> list[object]:
    if r.units:
        return [("node", int(u)) for u in r.units[i]]
    return [("pool", r.cluster.partitions[r.partition[i]].kinds[0])]


def _capacity(r: Replayed) -> dict[object, tuple[int, int, int]]:
    found: dict[object, tuple[int, int, int]] = {}
    node = 0
    for kind in r.cluster.kinds:
        one = (kind.cores, kind.gpus, kind.memory_bytes // MIB)
        found["pool", kind.name] = (one[0] * kind.count, one[1] * kind.count, one[2] * kind.count)
        for _ in range(kind.count):
            found["node", node] = one
            node += 1
    return found


def _reservations(r: Replayed) -> Iterator[str]:
    """EASY and FCFS in a single pool, in order of submission.

    Whenever a job starts before the first waiting one, that one must still be able to start when
    it could have without it, by the planned ends.
    """
    simple = (
        len(r.cluster.partitions) == 1
        and r.cluster.pooled
        and not (r.settings.cycle_s or r.settings.start_overhead_s or r.settings.end_overhead_s)
        and not np.any(r.trace.after >= 0)
        and not np.any(r.trace.array >= 0)
    )
    if not simple or r.settings.backfill not in (Backfill.FCFS, Backfill.EASY):
        return
    order = [i for i in range(len(r.trace)) if not math.isnan(r.start_s[i])]
    strict = r.settings.backfill is Backfill.FCFS
    exact = not np.any(r.end_s > r.start_s + r.planned_s)
    for i in order:
        head = next(
            (j for j in order if j < i and r.trace.submit_s[j] <= r.start_s[i] < r.start_s[j]),
            None,
        )
        if head is None:
            continue
        if strict:
            yield f"FCFS: job {i} overtakes job {head}"
        elif exact:
            moment = r.start_s[i]
            without = _could_start(r, head, moment, [j for j in order if _before(r, j, i)])
            with_it = _could_start(r, head, moment, [j for j in order if _before(r, j, i)] + [i])
            if with_it > without:
                yield f"EASY: job {i} delays job {head} from {without} to {with_it}"


def _before(r: Replayed, j: int, i: int) -> bool:
    """Whether ``j`` runs when ``i`` starts, and was started first (in order of the queue)."""
    runs = r.start_s[j] <= r.start_s[i] < r.end_s[j]
    return bool(runs and (r.start_s[j] < r.start_s[i] or j < i))


def _could_start(r: Replayed, head: int, now: float, running: list[int]) -> float:
    capacity = np.array(_capacity(r)["pool", r.cluster.kinds[0].name])
    ends = {j: float(r.start_s[j] + r.planned_s[j]) for j in running}
    need: Ints = np.array(_held(r, head))
    for moment in sorted({now, *ends.values()}):
        if moment < now:
            continue
        used = sum((np.array(_held(r, j)) for j in running if ends[j] > moment), np.zeros(3, int))
        if np.all(need + used <= capacity):
            return moment
    return math.inf
