"""Reads running and pending jobs with ``squeue`` of Slurm 22.05 to 26.05: all jobs, or one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import JobNow, PresentJob, stamped_decision
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.scheduler.jobs import NO_WAITING_ENDS
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import (
    NODES_NOT_FREE,
    Record,
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
_NO_VALUE = ("(null)", "N/A")
_DEPENDS = "Dependency"
"""Slurm's reason for a job that waits for other jobs."""


def ask() -> tuple[PresentJob, ...]:
    """Return all running and pending jobs, each pending task of an array on its own.

    Raises SchedulerError or ToolMissing.
    """
    return parse(listed(FIELDS, _STATES))


def listed(
    fields: Sequence[str],
    states: str,
    *,
    job: str | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Iterator[Record]:
    """Yield these fields of all jobs in these states, or of one ``job``, with times in UTC. Raises
    SchedulerError or ToolMissing.

    Users may put bars and line breaks in job names, so random text separates the fields: no user
    can imitate another field.
    """
    bar = f"<{secrets.token_hex(8)}>"
    form = ",".join(f"{name}:{bar}" for name in fields)
    one_job = () if job is None else ("-j", job)
    command = ("squeue", "-a", "-h", "-r", "-t", states, *one_job, "-O", form)
    return rows(commands.run(command, timeout_s=timeout_s, utc=True), bar, fields)


def rows(text: str, bar: str, fields: Sequence[str]) -> Iterator[Record]:
    """Yield the records in squeue's text, in which ``bar`` follows each field; fields without a
    value are empty."""
    values = [value if (value := part.strip()) not in _NO_VALUE else "" for part in text.split(bar)]
    size = len(fields)
    for at in range(0, len(values) - size + 1, size):
        yield dict(zip(fields, values[at : at + size], strict=True))


def parse(records: Iterable[Record]) -> tuple[PresentJob, ...]:
    """Return the present jobs in squeue's records; records that are no jobs are left out."""
    parsed_jobs = [(job, record) for record in records if (job := _job(record)) is not None]
    waited_for = _WaitedFor([job for job, _ in parsed_jobs])
    return tuple(_after(job, record, waited_for) for job, record in parsed_jobs)


def _job(fields: Record) -> PresentJob | None:
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
        account=fields["Account"],
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


def _after(job: PresentJob, fields: Record, waited_for: _WaitedFor) -> PresentJob:
    """Return the job with ``after`` set to the jobs that it depends on, if only they delay it.

    The job is returned unchanged where it waits for anything else, or where Slurm's text is
    unreadable.
    """
    if job.running or fields["Reason"].strip("()") != _DEPENDS:
        return job
    dependency = dependencies(re.sub(r"\([^)]*\)", "", fields["Dependency"]))
    after = () if dependency.others else waited_for.of(job, dependency)
    return replace(job, may_start=True, after=after) if after else job


def _gpus(fields: Record, nodes: int) -> int:
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
NOW_FIELDS = ("State", "Partition", "Reason", "StartTime", "NodeList", "TimeUsed", "TimeLimit")
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
    try:
        record = next(listed(NOW_FIELDS, "all", job=job_id, timeout_s=TIMEOUT_S), None)
    except SchedulerError as error:
        if "Invalid job id" in error.message:
            return None
        raise
    if record is None:
        return None
    state = state_of(record["State"])
    return JobNow(
        state,
        record["Partition"],
        waits_for=waits_for(record["Reason"]) if state == "pending" else None,
        start_s=moment_s(record["StartTime"], utc=True),
        nodes=record["NodeList"],
        elapsed_s=duration_s(record["TimeUsed"]) if state != "pending" else None,
        time_limit_s=duration_s(record["TimeLimit"]),
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
