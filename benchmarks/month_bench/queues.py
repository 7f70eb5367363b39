"""Pools of cores or GPUs, one a kind of node, with EASY backfilling; a job may wait in several, and
starts in the first that has room.

Reservations are made by time limits, as Slurm makes them.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable, Collection, Sequence

from month_bench.jobs import WEEK_S, Job
from month_bench.sites import CORES_PER_NODE, GPU_RATIO, GPUS_PER_NODE, MEAN_RATIO, SCARCE, Kind

LOOKED_AT = 300
"""Waiting jobs that one backfill pass, or one look ahead, looks at."""
_WIDEST = 0.25
"""The largest share of a pool that one job takes."""


class Pool:
    """One kind of node while a week is simulated; its units are GPUs where it has some, else
    cores."""

    def __init__(self, size: int, *, of_gpus: bool) -> None:
        self.size = self.free = size
        self.of_gpus = of_gpus
        self.running: list[tuple[float, int, int, float]] = []
        """(end by the time limit, number, units, true end) of each running job, ascending."""
        self.waiting: dict[int, Job] = {}
        """Waiting jobs by number, in order of submission."""

    def units(self, job: Job) -> int:
        """Return the cores or GPUs that the job takes, at most a quarter of the pool. A CPU job on
        GPU nodes takes the GPUs whose cores it has."""
        units = job.cores
        if self.of_gpus:
            units = job.gpus or math.ceil(job.cores * GPUS_PER_NODE / CORES_PER_NODE)
        return min(units, max(1, int(self.size * _WIDEST)))


def pools(kinds: Sequence[Kind], week: Sequence[Job], load: float) -> dict[str, Pool]:
    """Return pools that the week's jobs fill to ``load``.

    Old and new kinds have equal pools, as have the two kinds of GPUs; the high-memory kind has an
    eighth, or what the jobs need that run nowhere else.
    """
    on_new, on_gpus, on_himem = (
        [(job.run_s[kind], job.gpus or job.cores) for job in week if job.fitting[-1] == kind]
        for kind in ("new", "gpu-new", "himem")
    )
    ordinary = _pool_size(on_new, load * (1 + 1 / MEAN_RATIO))
    sizes = {
        "himem": max(ordinary // 8, _pool_size(on_himem, load)),
        "gpu-old": (of_gpus := _pool_size(on_gpus, load * (1 + 1 / GPU_RATIO))),
        "gpu-new": of_gpus,
    }
    return {
        kind.name: Pool(sizes.get(kind.name, ordinary), of_gpus=bool(kind.gres)) for kind in kinds
    }


def _pool_size(jobs: Sequence[tuple[float, int]], load: float) -> int:
    """The units of a pool that (seconds, units) of jobs fill, the widest as the pool allows."""
    size = 10.0**9
    for _ in range(8):
        size = sum(run_s * min(units, size * _WIDEST) for run_s, units in jobs) / (WEEK_S * load)
    return max(8, int(size))


class Queues:
    """The state of all pools."""

    def __init__(self, pools: dict[str, Pool]) -> None:
        self.pools = pools
        self.now_s = 0.0
        self.waiting: dict[int, tuple[Job, Sequence[str]]] = {}
        """Waiting jobs with the kinds where they wait, by number, in order of submission."""

    def starts_s(self, job: Job, *, by_limits: bool) -> dict[str, float]:
        """When the job would start on each kind, if those that run and wait end by their time
        limits, else by their true times, and each starts in order where it can start first."""
        free = {kind: pool.free for kind, pool in self.pools.items()}
        last_s = dict.fromkeys(self.pools, self.now_s)
        ends = {
            kind: [
                (limit_s if by_limits else end_s, units)
                for limit_s, _, units, end_s in pool.running
            ]
            for kind, pool in self.pools.items()
        }
        for each in ends.values():
            heapq.heapify(each)

        def start_s(kind: str, one: Job) -> float:
            """Let jobs end until there is room."""
            units = self.pools[kind].units(one)
            while free[kind] < units:
                end_s, released = heapq.heappop(ends[kind])
                last_s[kind], free[kind] = max(last_s[kind], end_s), free[kind] + released
            return last_s[kind]

        for one, kinds in list(self.waiting.values())[:LOOKED_AT]:
            first = min(kinds, key=lambda kind, one=one: start_s(kind, one))
            lasts_s = one.limit_s if by_limits else one.run_s[first]
            units = self.pools[first].units(one)
            heapq.heappush(ends[first], (start_s(first, one) + lasts_s, units))
            free[first] -= units
        return {kind: start_s(kind, job) for kind in self.pools}


Rule = Callable[[Queues, Job], Sequence[str]]
"""Returns the kinds to which a job is submitted, in order."""


def own_choice(_: Queues, job: Job) -> Sequence[str]:
    return (job.own,)


def the_list(kinds: Sequence[Kind]) -> Rule:
    """All kinds where a job fits, fast first; scarce ones only where it fits on no other."""
    order = sorted(kinds, key=lambda kind: (kind.name in SCARCE, kind.slower))
    return lambda _, job: [kind.name for kind in order if kind.name in job.fitting]


def earliest_start(kinds: Sequence[Kind]) -> Rule:
    """Return the rule that chooses the one of the list where a job starts first by time limits."""
    listed = the_list(kinds)

    def choose(queues: Queues, job: Job) -> Sequence[str]:
        starts_s = queues.starts_s(job, by_limits=True)
        return [min(listed(queues, job), key=starts_s.__getitem__)]

    return choose


def oracle(queues: Queues, job: Job) -> Sequence[str]:
    """Choose the one of the list where a job ends first by everybody's true times, then those where
    it runs no longer: they can only help."""
    starts_s = queues.starts_s(job, by_limits=False)
    by_time = sorted(job.fitting, key=job.run_s.__getitem__)
    first = min(by_time, key=lambda kind: starts_s[kind] + job.run_s[kind])
    return [first, *(k for k in by_time if k != first and job.run_s[k] <= job.run_s[first])]


def order_alone(listed: Rule, known: Collection[str]) -> Rule:
    """Return the rule that puts the lists of the programs in ``known`` in the order of true times,
    and changes no others: the most that an order can gain."""
    return lambda queues, job: (
        sorted(job.fitting, key=job.run_s.__getitem__)
        if job.program in known
        else listed(queues, job)
    )


def kinds_left_out(listed: Rule, known: Collection[str]) -> Rule:
    """Return the rule that leaves kinds out of the lists of the programs in ``known`` where the
    job, begun now, would end later than its first end elsewhere, by everybody's true times."""

    def choose(queues: Queues, job: Job) -> Sequence[str]:
        kinds = listed(queues, job)
        if job.program not in known:
            return kinds
        starts_s = queues.starts_s(job, by_limits=False)
        first_s = min(starts_s[kind] + job.run_s[kind] for kind in kinds)
        return [kind for kind in kinds if queues.now_s + job.run_s[kind] <= first_s]

    return choose


def simulate(
    jobs: Sequence[Job], pools: dict[str, Pool], chosen: Rule
) -> list[tuple[float, float]]:
    """Run the jobs; return, in their order, seconds from submission to end and core-seconds."""
    queues = Queues(pools)
    events = [(job.submit_s, 1, place, "") for place, job in enumerate(jobs)]
    heapq.heapify(events)
    took: dict[int, tuple[float, float]] = {}
    entries: dict[int, tuple[float, int, int, float]] = {}

    def start(job: Job, kind: str) -> None:
        pool, end_s = pools[kind], queues.now_s + job.run_s[kind]
        entry = queues.now_s + job.limit_s, job.number, pool.units(job), end_s
        entries[job.number] = entry
        bisect.insort(pool.running, entry)
        pool.free -= entry[2]
        took[job.number] = end_s - job.submit_s, job.run_s[kind] * job.cores
        heapq.heappush(events, (end_s, 0, places[job.number], kind))
        for other in queues.waiting.pop(job.number)[1]:
            del pools[other].waiting[job.number]

    places = {job.number: place for place, job in enumerate(jobs)}
    while events:
        queues.now_s, is_new, place, kind = heapq.heappop(events)
        job = jobs[place]
        if not is_new:
            entry = entries[job.number]
            del pools[kind].running[bisect.bisect_left(pools[kind].running, entry)]
            pools[kind].free += entry[2]
            _start_all(kind, queues, start)
            continue
        kinds = chosen(queues, job)
        queues.waiting[job.number] = job, kinds
        for kind in kinds:
            pools[kind].waiting[job.number] = job
        for kind in kinds:
            if job.number in queues.waiting:
                _start_all(kind, queues, start)
    return [took[job.number] for job in jobs]


def _start_all(kind: str, queues: Queues, start: Callable[[Job, str], None]) -> None:
    """Start what can start: in order, then what does not delay the first that cannot."""
    pool, now_s = queues.pools[kind], queues.now_s
    reserved_s: float | None = None
    spare = 0
    for job in list(pool.waiting.values())[:LOOKED_AT]:
        if pool.free <= 0:
            return
        units = pool.units(job)
        if reserved_s is None:
            if units <= pool.free:
                start(job, kind)
                continue
            reserved_s, free = now_s, pool.free
            for end_s, _, released, _ in pool.running:
                free += released
                if free >= units:
                    reserved_s, spare = end_s, free - units
                    break
        elif units <= pool.free and now_s + job.limit_s <= reserved_s:
            start(job, kind)
        elif units <= min(pool.free, spare):
            spare -= units
            start(job, kind)
