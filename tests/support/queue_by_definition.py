"""FCFS and EASY in one pool of cores, written from their definitions; nothing of Berth is used.

FCFS: jobs start in the order of submission, none before the one ahead of it. EASY (Lifka 1995): the
first job that cannot start has a reservation at the earliest time at which the planned ends of the
running jobs leave it enough cores; a job behind it starts now if it ends by then as planned, or if
it uses only cores that the reservation leaves over. When a job has run for as long as was planned,
it is planned for twice as long from its start, and the reservation is made anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

UNLIMITED_S = 86_400.0
"""Seconds for which a job without a time limit is planned, as docs/replay.md says."""


class Job(NamedTuple):
    """One job, in whole seconds; ``limit_s``: None where it has no time limit."""

    submit_s: int
    run_s: int
    cores: int
    limit_s: int | None
    user: int = 0

    @property
    def takes_s(self) -> float:
        """Its run time, cut off at its limit."""
        return self.run_s if self.limit_s is None else min(self.run_s, self.limit_s)

    @property
    def planned_s(self) -> float:
        """The run time that the scheduler expects."""
        return UNLIMITED_S if self.limit_s is None else self.limit_s


def starts(jobs: Sequence[Job], cores: int, *, easy: bool) -> list[float]:
    """When each job starts in a pool of so many cores; the jobs are in order of submission."""
    start: dict[int, float] = {}
    ends: dict[int, float] = {}
    planned_ends: dict[int, float] = {}
    queue: list[int] = []
    coming = 0
    while coming < len(jobs) or ends:
        arrivals = [float(job.submit_s) for job in jobs[coming : coming + 1]]
        now = min([*ends.values(), *planned_ends.values(), *arrivals])
        for n in [n for n, end_s in ends.items() if end_s <= now]:
            del ends[n], planned_ends[n]
        for n, end_s in planned_ends.items():
            planned_ends[n] = end_s if end_s > now else start[n] + 2 * (end_s - start[n])
        while coming < len(jobs) and jobs[coming].submit_s <= now:
            queue.append(coming)
            coming += 1
        planned = [(end_s, jobs[n].cores) for n, end_s in planned_ends.items()]
        free = cores - sum(jobs[n].cores for n in ends)
        for n in list(_starting(jobs, queue, now, free, planned, easy=easy)):
            start[n], ends[n] = now, now + jobs[n].takes_s
            planned_ends[n] = now + jobs[n].planned_s
            queue.remove(n)
    return [start.get(n, math.nan) for n in range(len(jobs))]


def _starting(
    jobs: Sequence[Job],
    queue: Sequence[int],
    now: float,
    free: int,
    planned: list[tuple[float, int]],
    *,
    easy: bool,
) -> Iterator[int]:
    """The waiting jobs that start now; ``planned``: end and cores of each running job."""
    reserved_s, left_over = math.inf, 0
    for n in queue:
        job, end_s = jobs[n], now + jobs[n].planned_s
        is_behind = reserved_s < math.inf
        if job.cores <= free and not is_behind:
            planned.append((end_s, job.cores))
        elif not is_behind:
            if not easy:
                return
            reserved_s, left_over = _reservation(job.cores, free, planned)
            continue
        elif job.cores > free or (end_s > reserved_s and job.cores > left_over):
            continue
        elif end_s > reserved_s:
            left_over -= job.cores
        free -= job.cores
        yield n


def _reservation(need: int, free: int, planned: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """When so many cores are free by the planned ends, and how many are left over then."""
    for moment in sorted({end_s for end_s, _ in planned}):
        then = free + sum(cores for end_s, cores in planned if end_s <= moment)
        if then >= need:
            return moment, then - need
    raise AssertionError("a job needs more cores than there are")
