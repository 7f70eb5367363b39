"""Reads running and pending jobs with ``squeue`` of Slurm 22.05 to 26.05: all jobs, or one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import JobNow, PresentJob, stamped_decision
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.scheduler.jobs import NO_WAITING_ENDS
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import (
    NODES_NOT_FREE,
    count,
    duration_s,
    gpus_in,
    memory_in,
    moment_s,
    names,
    state_of,
    waits_for_room,
)
from berth.plugin.slurm.submitted import Dependencies, dependencies

FIELDS = (
    "JobArrayID", "State", "Partition", "UserName", "Account", "NumNodes", "NumCPUs", "NumTasks",
    "TimeLimit", "SubmitTime", "StartTime", "Reason", "PriorityLong", "tres", "tres-per-node",
    "tres-per-job", "tres-per-task", "NodeList", "admin_comment", "Name", "Dependency",
)  # fmt: skip
"""The fields requested with squeue's ``--Format``."""
_STATES = "PD,CF,R,CG,S,SI,SO"
_TIMEOUT_S = 60.0
_DEPENDS = "Dependency"
"""Slurm's reason for a job that waits for other jobs."""

Fields = Mapping[str, str]


def ask() -> tuple[PresentJob, ...]:
    """Return all running and pending jobs, each pending task of an array on its own.

    Raises SchedulerError or ToolMissing.
    """
    # Users may put bars and line breaks in job names, so fields are separated by random text.
    bar = f"<{secrets.token_hex(8)}>"
    form = ",".join(f"{name}:{bar}" for name in FIELDS)
    text = commands.run(
        ("squeue", "-a", "-h", "-r", "-t", _STATES, "-O", form), timeout_s=_TIMEOUT_S, utc=True
    )
    return parse(text, bar)


def parse(text: str, bar: str) -> tuple[PresentJob, ...]:
    """Parse squeue's text, in which ``bar`` follows each field; records that are no jobs are left
    out.
    """
    parts = text.split(bar)
    size = len(FIELDS)
    rows = (parts[at : at + size] for at in range(0, len(parts) - size + 1, size))
    fields = (
        dict(zip(FIELDS, (row_fields.strip() for row_fields in row), strict=True)) for row in rows
    )
    parsed_jobs = [
        (job, row_fields) for row_fields in fields if (job := _job(row_fields)) is not None
    ]
    waited_for = _WaitedFor([job for job, _ in parsed_jobs])
    return tuple(_after(job, row_fields, waited_for) for job, row_fields in parsed_jobs)


def _job(fields: Fields) -> PresentJob | None:
    submit_s = moment_s(fields["SubmitTime"], utc=True)
    state = state_of(fields["State"])
    if submit_s is None or state not in ("pending", "running"):
        return None
    running, nodes = state == "running", count(fields["NumNodes"].partition("-")[0]) or 1
    return PresentJob(
        job_id=fields["JobArrayID"],
        user=fields["UserName"],
        queues=names(fields, "Partition"),
        running=running,
        cores=count(fields["NumCPUs"].partition("-")[0]) or 1,
        submit_s=submit_s,
        may_start=running or waits_for_room(fields["Reason"]),
        account="" if fields["Account"] == "(null)" else fields["Account"],
        name=fields["Name"],
        nodes=nodes,
        gpus=_gpus(fields, nodes),
        node_names=tuple(hostlist(fields["NodeList"])) if running else (),
        priority=float(count(fields["PriorityLong"]) or 0),
        time_limit_s=duration_s(fields["TimeLimit"]),
        start_s=moment_s(fields["StartTime"], utc=True) if running else None,
        decision=stamped_decision(fields["admin_comment"]),
        memory_bytes=(memory_in(fields["tres"]) or 0) // nodes,
    )


class _WaitedFor:
    """Finds the jobs that a dependency names.

    An array stands for its last task; ``singleton`` stands for the last earlier job of the same
    user and name.
    """

    def __init__(self, jobs: Sequence[PresentJob]) -> None:
        ordered = sorted(jobs, key=lambda job: _number(job.job_id))
        self._of_id = {
            name: job.job_id
            for job in ordered
            for name in (job.job_id, job.job_id.partition("_")[0])
        }
        self._before: dict[str, str] = {}
        last: dict[tuple[str, str], str] = {}
        for job in ordered:
            before = last.get((job.user, job.name))
            if before is not None:
                self._before[job.job_id] = before
            last[job.user, job.name] = job.job_id

    def of(self, job: PresentJob, dependency: Dependencies) -> tuple[str, ...]:
        """Return the ids of the jobs that a dependency names; jobs that are not present have ended
        and are left out.
        """
        task = job.job_id.partition("_")[2]
        named = (*dependency.after, *(f"{array}_{task}" for array in dependency.with_task))
        ids = [self._of_id[name] for name in named if name in self._of_id]
        if dependency.singleton and job.job_id in self._before:
            ids.append(self._before[job.job_id])
        return tuple(ids)


def _number(job_id: str) -> tuple[int, int]:
    array, _, task = job_id.partition("_")
    return count(array) or 0, count(task) or 0


def _after(job: PresentJob, fields: Fields, waited_for: _WaitedFor) -> PresentJob:
    """Return the job with ``after`` set to the jobs that it depends on, if only they delay it.

    The job is returned unchanged where it waits for anything else, or where Slurm's text is
    unreadable.
    """
    if job.running or fields["Reason"].strip("()") != _DEPENDS:
        return job
    dependency = dependencies(re.sub(r"\([^)]*\)", "", fields["Dependency"]))
    after = () if dependency.others else waited_for.of(job, dependency)
    return replace(job, may_start=True, after=after) if after else job


def _gpus(fields: Fields, nodes: int) -> int:
    """Return the number of the job's GPUs on all nodes: as accounted, or else as requested.

    Slurm accounts for GPUs only where AccountingStorageTRES says so.
    """
    accounted = gpus_in(fields["tres"])
    if accounted:
        return accounted
    tasks = count(fields["NumTasks"]) or 1
    for name, each in (("tres-per-job", 1), ("tres-per-node", nodes), ("tres-per-task", tasks)):
        requested = gpus_in(fields[name].replace("gres:", "").replace("gres/", ""))
        if requested:
            return requested * each
    return 0


TIMEOUT_S = 5.0
_FIELDS = ("T", "P", "r", "S", "N", "M", "l")
"""Letters of squeue's ``--format``: state, partition, reason, start, nodes, time used,
time limit.
"""
_MEANING = {
    "Resources": "nodes or GPUs that are in use now",
    "Priority": "jobs of higher priority before it",
    "Dependency": "another job to end",
    "DependencyNeverSatisfied": "another job that will never end as it must",
    "BeginTime": "the time at which it may begin",
    "JobHeldUser": "its owner, who holds it: scontrol release",
    "JobHeldAdmin": "an administrator, who holds it",
    "JobArrayTaskLimit": "other tasks of its array",
    "Licenses": "licences",
    "Reservation": "its reservation",
    "PartitionDown": "the partition, which is down",
    "PartitionInactive": "the partition, which is inactive",
    "PartitionTimeLimit": f"{NO_WAITING_ENDS}: it asks for more time than the partition gives",
    "PartitionNodeLimit": f"{NO_WAITING_ENDS}: it asks for more nodes than the partition gives",
    "ReqNodeNotAvail": "nodes that are down or reserved",
    "BadConstraints": f"{NO_WAITING_ENDS}: no node has what it asks for",
}
_LIMITS = ("Assoc", "QOS", "MaxCpuPer", "MaxMemPer", "MaxNodePer", "MaxGRESPer")


def job_now(job_id: str) -> JobNow | None:
    """Return one job's present state; None: slurmctld does not know the job.

    Raises SchedulerError or ToolMissing.
    """
    form = "|".join(f"%{field}" for field in _FIELDS)
    words = ("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-o", form)
    try:
        text = commands.run(words, timeout_s=TIMEOUT_S)
    except SchedulerError as error:
        if "Invalid job id" in error.message:
            return None
        raise
    line = next(
        (text_line for text_line in text.splitlines() if text_line.count("|") >= len(_FIELDS) - 1),
        None,
    )
    if line is None:
        return None
    state, queue, reason, start, nodes, used, limit = line.rsplit("|", len(_FIELDS) - 1)
    job_state = state_of(state)
    return JobNow(
        job_state,
        queue,
        waits_for=waits_for(reason) if job_state == "pending" else None,
        start_s=moment_s(start.strip(), utc=False),
        nodes=nodes.strip(),
        elapsed_s=duration_s(used.strip()) if job_state != "pending" else None,
        time_limit_s=duration_s(limit.strip()),
    )


def waits_for(reason: str) -> str:
    """Return a pending reason of squeue as words, followed by Slurm's own name for it."""
    word = reason.strip("() ").partition(",")[0]
    if not word or word == "None":
        return "the scheduler to look at it"
    if word.replace("_", " ") == NODES_NOT_FREE:
        return (
            "nodes that are in use, down, drained or reserved for jobs in higher priority "
            "partitions"
        )
    meaning = _MEANING.get(word)
    if meaning is None and word.startswith(_LIMITS):
        meaning = "a limit of its user, account or QOS"
    return f"{meaning} ({word})" if meaning else word
