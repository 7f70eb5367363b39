"""Places the real job at the end of its pilot job, with the rights of the user who submitted both.

The real job depends on the pilot job by ``afterany``: whatever fails here, it runs at the latest
where the user asked. It is changed only after ``sbatch --test-only`` has accepted such a job, and
restored where the change fails half-way.
"""

from __future__ import annotations

import grp
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from berth.pilot.errors import SchedulerError
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import allowed, closed_as, records
from berth.policies.resources import memory_form, own_cores_per_node
from berth.policies.values import Edit, MemoryForm, Request

_MIB = 2**20
_GRES = re.compile(r"\bgres[:/]")
"""The prefix of each gres in Slurm's output: ``gres:`` up to 22.05, ``gres/`` in later versions."""
_NEVER = ("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints")
"""Pending reasons for which Slurm would keep a job waiting without end."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """One change of a pending job: as ``scontrol update`` words, and as ``sbatch`` options for a
    test.
    """

    update: tuple[str, ...]
    options: tuple[str, ...]
    queue: str | None = None


def waiting_for(pilot_job: str) -> str | None:
    """Return the id of this user's pending job that depends on the pilot job; None: no such job.

    Raises SchedulerError.
    """
    text = commands.run(("squeue", "--me", "-h", "-t", "PENDING", "-o", "%A|%E"))
    for line in text.splitlines():
        job, _, dependency = line.strip().partition("|")
        if dependency.startswith(f"afterany:{pilot_job}("):
            return job
    return None


def change_of(request: Request, edit: Edit) -> PendingChange:
    """Return what ``edit`` changes in the pending job that ``request`` describes."""
    held = edit.resources or request.resources
    cores = held.tasks * held.cpus_per_task
    limit = edit.time_limit_s or request.time_limit_s
    minutes = None if limit is None else math.ceil(limit / 60)
    by_core = memory_form(request) is MemoryForm.CORE
    memory = held.memory_bytes_per_node
    if memory is not None and by_core:
        memory = math.ceil(memory / own_cores_per_node(held))
    mib = None if memory is None else math.ceil(memory / _MIB)
    nodes = held.nodes or None
    update = {
        "Partition": edit.queue,
        "Features": edit.constraint,
        "Gres": edit.gres,
        "NumNodes": None if nodes is None else f"{nodes}-{nodes}",
        "NumTasks": held.tasks,
        "CPUsPerTask": held.cpus_per_task,
        "NumCPUs": f"{cores}-{cores}",
        # sbatch's ``-c`` has set MinCPUsNode; above the new number of cores Slurm refuses the job.
        "MinCPUsNode": held.cpus_per_task,
        "MinMemoryCPU" if by_core else "MinMemoryNode": mib,
        "TimeLimit": minutes if edit.time_limit_s is not None else None,
        "Comment": f"berth:{request.workload}",
    }
    options = {
        "partition": edit.queue,
        "constraint": edit.constraint or request.features,
        "gres": edit.gres,
        "nodes": nodes,
        "ntasks": held.tasks,
        "cpus-per-task": held.cpus_per_task,
        "mem-per-cpu" if by_core else "mem": None if mib is None else f"{mib}M",
        "time": minutes,
        "account": request.account,
        "qos": request.qos,
    }
    return PendingChange(
        tuple(f"{key}={value}" for key, value in update.items() if value is not None),
        tuple(f"--{key}={value}" for key, value in options.items() if value is not None),
        edit.queue,
    )


def apply(job: str, change: PendingChange) -> None:
    """Change the pending job. On failure the job is restored as it was and SchedulerError is
    raised.
    """
    _check_open(change.queue)
    commands.run(("sbatch", "--test-only", *change.options, "--comment=berth:off", "--wrap=true"))
    before = _record(job)
    if before.get("JobState") != "PENDING":
        raise SchedulerError(f"job {job} waits no more: it is {before.get('JobState', 'gone')}")
    try:
        commands.update_job(job, change.update)
        reason = _record(job).get("Reason", "")
        if reason in _NEVER:
            raise SchedulerError(f"Slurm would keep job {job} waiting there ({reason})")
    except SchedulerError:
        changed = {word.partition("=")[0] for word in change.update}
        with suppress(SchedulerError):  # the first error is raised below
            commands.update_job(
                job, [w for w in _words_back(before) if w.partition("=")[0] in changed]
            )
        raise


def _check_open(queue: str | None) -> None:
    """Raise SchedulerError for a closed partition, where Slurm may accept the job and never start
    it.
    """
    for name in (queue or "").split(","):
        if name:
            _check_one_open(name)


def _check_one_open(queue: str) -> None:
    text = commands.run(("scontrol", "-o", "show", "partition", queue))
    partition = next(iter(records(text, "PartitionName")), {})
    if closed := closed_as(partition.get("State", "UP")):
        raise SchedulerError(f"partition {queue} is {closed}")
    groups = allowed(partition, "AllowGroups")
    if groups is None or os.geteuid() == 0:
        return
    own_groups = {_group_name(number) for number in (os.getegid(), *os.getgroups())}
    if own_groups.isdisjoint(groups):
        raise SchedulerError(f"partition {queue} is not open to your groups")


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _record(job: str) -> Mapping[str, str]:
    text = commands.run(("scontrol", "-o", "show", "job", job))
    return next(iter(records(text, "JobId")), {})


def _words_back(before: Mapping[str, str]) -> list[str]:
    cores = before.get("NumCPUs", "1")
    words = [
        f"Partition={before['Partition']}",
        f"NumTasks={before.get('NumTasks', '1')}",
        f"CPUsPerTask={before.get('CPUs/Task', '1')}",
        f"NumCPUs={cores}",
        f"MinCPUsNode={before.get('MinCPUsNode', '1')}",
        f"NumNodes={before.get('NumNodes', '1')}",
        f"TimeLimit={before.get('TimeLimit', 'UNLIMITED')}",
        f"Gres={_GRES.sub('', _or_nothing(before.get('TresPerNode')))}",
        f"Features={_or_nothing(before.get('Features'))}",
        f"Comment={_or_nothing(before.get('Comment'))}",
    ]
    words += [
        f"{key}={before[key].removesuffix('M')}"
        for key in ("MinMemoryNode", "MinMemoryCPU")
        if before.get(key, "").endswith("M")
    ]
    return words


def _or_nothing(text: str | None) -> str:
    return "" if text in (None, "(null)", "N/A") else text
