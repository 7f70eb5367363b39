"""Two equal pools of cores with EASY backfilling; a job may wait in both, and starts in the first
that has room.

Reservations are made by time limits, as Slurm makes them.
"""

from __future__ import annotations

import bisect
import heapq
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from month_bench.jobs import KINDS, NEW, Job

LOOKED_AT = 300
"""Waiting jobs that one backfill pass looks at."""
_NEVER_S = 7 * 86_400.0


Chosen = Callable[["Queues", Job], Sequence[str]]
"""Return the kinds to which a job is submitted, in order."""


@dataclass
class Queues:
    """The state of both pools while a week is simulated."""

    cores: int
    """Cores of each kind."""
    now_s: float = 0.0
    free: dict[str, int] = field(default_factory=dict)
    running: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """(end by the time limit, cores) of each running job, ascending."""
    waiting: dict[str, dict[int, tuple[Job, int]]] = field(default_factory=dict)
    """(job, cores that it takes) of each waiting job in order of submission, by number."""
    waiting_cores: dict[str, int] = field(default_factory=dict)
    last_s: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Run times on the new kind of each program's last five jobs, as a perfect observer knows."""

    def __post_init__(self) -> None:
        for kind in KINDS:
            self.free[kind], self.running[kind] = self.cores, []
            self.waiting[kind], self.waiting_cores[kind] = {}, 0

    def width(self, job: Job) -> int:
        """Cores that the job takes: at most a quarter of a pool."""
        return min(job.cores, self.cores // 4)

    def wait_s(self, kind: str, job: Job) -> float:
        """Expected seconds until a job submitted now starts: after all that wait there, by the
        time limits of those that run."""
        free = self.free[kind]
        need = self.width(job) + self.waiting_cores[kind]
        if free >= need:
            return 0.0
        for end_s, cores in self.running[kind]:
            free += cores
            if free >= need:
                return max(0.0, end_s - self.now_s)
        return _NEVER_S


def simulate(jobs: Sequence[Job], cores: int, chosen: Chosen, past: Sequence[Job]) -> list[float]:
    """Run the jobs and return, in their order, the seconds from submission to end.

    ``past``: jobs that ended before, for ``Queues.last_s``.
    """
    queues = Queues(cores)
    for job in past:
        _remember(queues, job)
    events: list[tuple[float, int, int, str]] = []
    for place, job in enumerate(jobs):
        heapq.heappush(events, (job.submit_s, 0, place, ""))
    place_of = {job.number: place for place, job in enumerate(jobs)}
    took_s: dict[int, float] = {}
    ends: dict[int, tuple[float, int]] = {}

    def start(job: Job, kind: str) -> None:
        place, cores = place_of[job.number], queues.width(job)
        queues.free[kind] -= cores
        ends[place] = queues.now_s + job.limit_s, cores
        bisect.insort(queues.running[kind], ends[place])
        end_s = queues.now_s + job.on(kind)
        took_s[place] = end_s - job.submit_s
        heapq.heappush(events, (end_s, 1, place, kind))
        for other in KINDS:
            if queues.waiting[other].pop(job.number, None) is not None:
                queues.waiting_cores[other] -= cores

    while events:
        queues.now_s, is_end, place, kind = heapq.heappop(events)
        job = jobs[place]
        if is_end:
            queues.free[kind] += ends[place][1]
            queues.running[kind].remove(ends[place])
            _remember(queues, job)
            _pass(queues, kind, start)
            continue
        kinds = chosen(queues, job)
        for kind in kinds:
            queues.waiting[kind][job.number] = job, queues.width(job)
            queues.waiting_cores[kind] += queues.width(job)
        for kind in kinds:
            _pass(queues, kind, start)
    return [took_s[place] for place in range(len(jobs))]


def _remember(queues: Queues, job: Job) -> None:
    last = queues.last_s[job.user, job.program]
    last.append(job.new_s)
    del last[:-5]


def _pass(queues: Queues, kind: str, start: Callable[[Job, str], None]) -> None:
    """Start what can start: in order, then what does not delay the first that cannot."""
    reserved_s: float | None = None
    spare = looked_at = 0
    for job, cores in list(queues.waiting[kind].values()):
        free = queues.free[kind]
        if free <= 0:
            return
        if reserved_s is None:
            if cores <= free:
                start(job, kind)
                continue
            reserved_s = queues.now_s
            for end_s, released in list(queues.running[kind]):
                free += released
                if free >= cores:
                    reserved_s, spare = end_s, free - cores
                    break
            continue
        looked_at += 1
        if looked_at > LOOKED_AT:
            return
        if cores > free:
            continue
        if queues.now_s + job.limit_s <= reserved_s:
            start(job, kind)
        elif cores <= spare:
            spare -= cores
            start(job, kind)


def own_choice(_: Queues, job: Job) -> Sequence[str]:
    return (job.queue,)


def in_order(*kinds: str) -> Chosen:
    """Return these kinds for every job: it starts in the first that has room."""
    return lambda _queues, _job: kinds


def earliest_end(ratio_of: Callable[[Job], float]) -> Chosen:
    """Return the kind where the job ends first by its own past times and a ratio."""

    def choose(queues: Queues, job: Job) -> Sequence[str]:
        last = queues.last_s[job.user, job.program]
        run_s = statistics.median(last) if last else 0.2 * max(job.request_s, 60.0)
        ends = {
            kind: queues.wait_s(kind, job) + run_s * (1.0 if kind == NEW else ratio_of(job))
            for kind in (NEW, *KINDS)
        }
        return (min(ends, key=ends.__getitem__),)

    return choose


def hours_by_user(jobs: Sequence[Job], took_s: Sequence[float]) -> float:
    """Mean hours from submission to end, every user counting equally."""
    by_user: dict[str, list[float]] = defaultdict(list)
    for job, seconds in zip(jobs, took_s, strict=True):
        by_user[job.user].append(seconds / 3600.0)
    return statistics.fmean(statistics.fmean(hours) for hours in by_user.values())
