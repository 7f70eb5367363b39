"""What waits in Slurm's queue for slices: demands of a re-cut, and jobs that one would strand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from berth.plugin.slurm.commands import run
from berth.policies.mig.demands import Demand, SliceOption

MAX_JOBS = 100_000
STRANDED = "BadConstraints"
"""Slurm's reason for a job whose type no node has any more; it holds the job."""
_WAITS_FOR_ROOM = ("Resources", "Priority", "None", "ReqNodeNotAvail")
_GRES = re.compile(r"gpu:(?P<type>[^:=,(]+)(?:[:=](?P<count>\d{1,4}))?(?=,|$)")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending job that asks for GPUs by type; counts are of one node."""

    job: str
    reason: str
    nodes: int
    types: tuple[tuple[str, int], ...]


def waiting(command: Callable[[list[str]], str] = run) -> Iterator[Waiting]:
    """Pending jobs that name GPU types, array tasks one by one. Raises SchedulerError."""
    text = command(["squeue", "-h", "-r", "-a", "-t", "PENDING", "-o", "%i|%D|%r|%b"])
    for line in text.splitlines()[:MAX_JOBS]:
        job, *rest = line.split("|", 3)
        if len(rest) != 3 or not rest[0].isdecimal():
            continue
        nodes, reason, gres = rest
        types = types_in(gres)
        if types:
            yield Waiting(job, reason, int(nodes), types)


def types_in(gres: str) -> tuple[tuple[str, int], ...]:
    """GPU types with their counts; a bare count (``gpu:2``) names none."""
    found = ((m["type"], int(m["count"] or 1)) for m in _GRES.finditer(gres))
    return tuple((name, count) for name, count in found if not name.isdecimal())


def pending(
    profiles: Collection[str],
    pattern: str = "{profile}",
    *,
    command: Callable[[list[str]], str] = run,
) -> tuple[Demand, ...]:
    """Jobs that wait for room on slices of these profiles, one demand a profile.

    Held jobs and those that wait for other jobs do not count. Raises SchedulerError.
    """
    names = {pattern.replace("{profile}", profile): profile for profile in profiles}
    wanted: Counter[str] = Counter()
    for job in waiting(command):
        if job.reason.startswith((*_WAITS_FOR_ROOM, STRANDED)):
            for name, count in job.types:
                if name in names:
                    wanted[names[name]] += count * job.nodes
    return tuple(
        Demand(name=profile, options=(SliceOption(profile),), count=count)
        for profile, count in sorted(wanted.items())
        if count
    )
