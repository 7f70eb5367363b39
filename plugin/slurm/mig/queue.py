"""Reads from Slurm's queue which MIG slices jobs request, and which jobs wait for them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from berth.plugin.mig.node import SlicesAsked, stamped_profiles
from berth.plugin.slurm.commands import run
from berth.policies.mig.demands import Demand, SliceOption

MAX_JOBS = 100_000
MAX_SLICES = 10_000
"""The most slices counted for one job: a job with more can never run, and would slow the
planner."""
GRES_FIELDS = (
    "NumNodes:|,NumTasks:|,tres-per-node:|,tres-per-job:|,tres-per-task:|,tres-per-socket:|"
)
"""The fields of ``squeue -O`` that ``asked_types`` takes."""
GRES_COLUMNS = 6
_SQUEUE = (
    "squeue",
    "-h",
    "-r",
    "-a",
    "-t",
    "PENDING",
    "-O",
    f"JobArrayID:|,Reason:|,{GRES_FIELDS}",
)
_SQUEUE_ALL = (
    "squeue", "-h", "-r", "-a", "-t", "all", "-O",
    f"JobArrayID:|,SubmitTime:|,State:|,TimeUsed:|,{GRES_FIELDS},admin_comment:512",
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,7}", re.ASCII)
STRANDED = "BadConstraints"
"""Slurm's reason for a job whose gres type no node has any more; Slurm holds such a job."""
_WAITS_FOR_ROOM = ("Resources", "Priority", "None", "ReqNodeNotAvail")
_GRES = re.compile(r"gpu:(?P<type>[^:=,(]+)(?:[:=](?P<count>\d{1,4}))?(?=,|$)")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending job that requests GPUs by type, by any option; the counts are for the whole job."""

    job: str
    reason: str
    types: tuple[tuple[str, int], ...]


def waiting(command: Callable[[list[str]], str] = run) -> Iterator[Waiting]:
    """Yield pending jobs that request GPU types, each array task on its own. Raises
    SchedulerError."""
    for line in command(list(_SQUEUE)).splitlines()[:MAX_JOBS]:
        job, *rest = line.split("|")
        if len(rest) != 1 + GRES_COLUMNS + 1:
            continue
        types = asked_types(rest[1:-1])
        if types:
            yield Waiting(job, rest[0], types)


def asked_types(columns: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return the requested GPU types with their counts for the whole job, from the ``GRES_FIELDS``
    columns.

    Where several options request the same type (``--gpus`` and ``--gpus-per-node``), the larger
    count is used.
    """
    nodes, tasks, *forms = columns
    if not (_NUMBER.fullmatch(nodes) and _NUMBER.fullmatch(tasks)):
        return ()
    counts: dict[str, int] = {}
    for text, times in zip(forms, (int(nodes), 1, int(tasks), int(nodes)), strict=True):
        for name, count in types_in(text):
            counts[name] = max(counts.get(name, 0), min(count * times, MAX_SLICES))
    return tuple((name, count) for name, count in counts.items() if count)


def types_in(gres: str) -> tuple[tuple[str, int], ...]:
    """Return GPU types and counts from a gres text; a count without a type (``gpu:2``) is left
    out."""
    types = ((m["type"], int(m["count"] or 1)) for m in _GRES.finditer(gres))
    return tuple((name, count) for name, count in types if not name.isdecimal())


def pending(
    profiles: Collection[str],
    pattern: str = "{profile}",
    *,
    command: Callable[[list[str]], str] = run,
) -> tuple[Demand, ...]:
    """Return the slices that pending jobs wait for: one demand per profile, with its count.

    Held jobs, and jobs that wait for other jobs, do not count. Raises SchedulerError.
    """
    names = {pattern.replace("{profile}", profile): profile for profile in profiles}
    wanted: Counter[str] = Counter()
    for job in waiting(command):
        if job.reason.startswith((*_WAITS_FOR_ROOM, STRANDED)):
            for name, count in job.types:
                if name in names:
                    wanted[names[name]] += count
    return tuple(
        Demand(name=profile, options=(SliceOption(profile),), count=min(count, MAX_JOBS))
        for profile, count in sorted(wanted.items())
        if count
    )


def seen_now(
    profiles: Collection[str],
    pattern: str = "{profile}",
    *,
    command: Callable[[list[str]], str] = run,
) -> Iterator[SlicesAsked]:
    """Yield the slices requested by all jobs that Slurm still knows, except jobs cancelled before
    they ran.

    Submitting and cancelling costs a user nothing, so such jobs do not show demand. Raises
    SchedulerError.
    """
    names = {pattern.replace("{profile}", profile): profile for profile in profiles}
    for line in command(list(_SQUEUE_ALL)).splitlines()[:MAX_JOBS]:
        job, *rest = line.split("|", 4 + GRES_COLUMNS)
        if len(rest) != 4 + GRES_COLUMNS:
            continue
        submitted, state, used, *columns, stamp = rest
        ran = state != "PENDING"
        if state == "CANCELLED" and not any(digit in used for digit in "123456789"):
            continue
        try:
            at_s = time.mktime(time.strptime(submitted, "%Y-%m-%dT%H:%M:%S"))
        except (ValueError, OverflowError):
            continue
        will_do = stamped_profiles(stamp, profiles)
        if will_do:
            yield SlicesAsked(job=job, submit_s=at_s, profiles=will_do, count=1, ran=ran)
            continue
        for name, count in asked_types(columns):
            if name in names:
                yield SlicesAsked(
                    job=job, submit_s=at_s, profiles=(names[name],), count=count, ran=ran
                )
