"""Reads how Slurm's jobs ended: from accounting, or else from what slurmctld remembers.

Slurm keeps the id of Berth's decision in the job's AdminComment, which no user can set. The fields
requested from sacct and squeue include none that a user writes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.pilot.run import ENDED, Run
from berth.plugin.scheduler import EndedJobs, stamped_decision
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.slurm import commands
from berth.plugin.slurm.present_jobs import listed
from berth.plugin.slurm.records import (
    Record,
    count,
    duration_s,
    gpu_type_in,
    gpus_in,
    gres,
    moment_s,
    state_of,
)
from berth.plugin.slurm.step_usage import StepUsage

_IN_BOTH = {
    "JobID": "JobArrayID",
    "JobIDRaw": "JobID",
    "State": "State",
    "Partition": "Partition",
    "Elapsed": "TimeUsed",
    "NodeList": "NodeList",
    "User": "UserName",
    "Submit": "SubmitTime",
    "Start": "StartTime",
    "End": "EndTime",
    "ExitCode": "exit_code",
    "NNodes": "NumNodes",
    "NCPUS": "NumCPUs",
    "AllocTRES": "tres-alloc",
    "Timelimit": "TimeLimit",
}
"""Fields of sacct, with the names under which ``squeue --Format`` has the same."""
SACCT_FIELDS = (
    *_IN_BOTH, "ElapsedRaw", "MaxRSS", "NTasks", "ConsumedEnergyRaw", "TRESUsageInMax",
    "TRESUsageInAve", "TRESUsageInTot", "TRESUsageOutTot", "TotalCPU", "AdminComment",
)  # fmt: skip
"""AdminComment is last: it may hold the separator."""
_REMEMBERED = {**_IN_BOTH, "ReqTRES": "tres-per-node", "AdminComment": "admin_comment"}
REMEMBERED_FIELDS = tuple(_REMEMBERED.values())
_SACCT = ("sacct", "-a", "-n", "-P", "--noconvert", "-o", ",".join(SACCT_FIELDS))
_ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,TO"
_TIMEOUT_S = 60.0
"""Seconds allowed for reading all jobs that ended within some hours; no user waits for it."""
_DISABLED = "accounting storage is disabled"


@dataclass
class _Reading:
    """The result of reading jobs from Slurm: their outcomes, and the message of the first
    problem.
    """

    outcomes: dict[str, Run] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """Each job's own Slurm number, by the id that its user sees (``7_2`` for an array task)."""
    problem: str | None = None

    def add(self, job_id: str, record: Record) -> None:
        """Add the outcome of one job."""
        self.outcomes[job_id] = _outcome(job_id, record)
        self.numbers[job_id] = record["JobIDRaw"] or job_id

    def by_number(self) -> dict[str, Run]:
        """Return the outcomes by job number, which is stable: the id that users see may change
        while slurmdbd records a job array.
        """
        named = {self.numbers.get(name, name): outcome for name, outcome in self.outcomes.items()}
        return {number: replace(o, job_id=number) for number, o in named.items()}


def of_jobs(job_ids: Sequence[str]) -> dict[str, Run]:
    """Return the outcomes of these jobs by job id. Raises SchedulerError or ToolMissing."""
    if not job_ids:
        return {}
    try:
        text = commands.run((*_SACCT, "-j", ",".join(job_ids)), utc=True)
    except SchedulerError:
        return _remembered(job_ids)
    return parse_sacct(text)


def ended(since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
    """Return the jobs that ended between two Unix times; see ``Scheduler.ended``.

    Raises SchedulerError or ToolMissing.
    """
    window = ("-s", _ENDED_STATES, "-S", _utc(since_s), "-E", _utc(until_s + 1))
    try:
        text = commands.run((*_SACCT, *window), timeout_s=_TIMEOUT_S, utc=True)
    except ToolMissing:
        reading = _all_remembered()
    except SchedulerError as error:
        # Where slurmdbd is only down, accounting will report these jobs later. slurmctld, which
        # has forgotten some of them, must not be asked instead.
        if _DISABLED not in error.message:
            raise
        reading = _all_remembered()
    else:
        reading = _read_sacct(text)
    outcomes = tuple(
        outcome
        for outcome in reading.by_number().values()
        if outcome.state in ENDED
        and outcome.end_s is not None
        and since_s <= outcome.end_s <= until_s
        and known.get(outcome.job_id) != outcome.end_s
    )
    return EndedJobs(outcomes, reading.problem)


def _utc(unix_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


# Reading sacct's output


def parse_sacct(text: str) -> dict[str, Run]:
    """Return the outcomes in ``sacct -P`` lines, by job id. Raises SchedulerError for an unreadable
    line.
    """
    reading = _read_sacct(text)
    if reading.problem is not None:
        raise SchedulerError(reading.problem)
    return reading.outcomes


def _read_sacct(text: str) -> _Reading:
    """Return the outcomes in all readable lines; lines of job steps only add peak memory to their
    job.
    """
    reading = _Reading()
    steps: dict[str, StepUsage] = {}
    for line in text.split("\n"):
        if not line:
            continue
        parts = line.split("|", len(SACCT_FIELDS) - 1)
        if len(parts) != len(SACCT_FIELDS):
            unreadable = f"sacct answered something unreadable: {line[:80]!r}"
            reading.problem = reading.problem or unreadable
            continue
        record = dict(zip(SACCT_FIELDS, parts, strict=True))
        job_id, dot, _ = record["JobID"].partition(".")
        if dot:
            steps.setdefault(job_id, StepUsage()).add(record)
        else:
            reading.add(job_id, record)
    for job_id in steps.keys() & reading.outcomes.keys():
        job = reading.outcomes[job_id]
        used = steps[job_id].used(nodes=job.nodes or 1, gpus=job.gpus, elapsed_s=job.elapsed_s)
        source = "polled" if used.peak_bytes else ""
        reading.outcomes[job_id] = replace(job, **used._asdict(), peak_source=source)
    return reading


def _outcome(job_id: str, record: Record) -> Run:
    nodes = count(record["NNodes"].partition("-")[0])
    comment = record["AdminComment"]
    return Run(
        cluster="",
        job_id=job_id,
        state=state_of(record["State"]),
        partition=record["Partition"],
        elapsed_s=duration_s(record["Elapsed"]) or 0.0,
        node_list=recorded_nodes(record["NodeList"]),
        user=record["User"],
        decision=stamped_decision(comment) or ("" if comment else None),
        exit_status=_exit_status(record["ExitCode"]),
        submit_s=moment_s(record["Submit"], utc=True),
        start_s=moment_s(record["Start"], utc=True),
        end_s=moment_s(record["End"], utc=True),
        nodes=nodes,
        cores=count(record["NCPUS"].partition("-")[0]),
        gpus=gpus_in(record["AllocTRES"]) or _requested_gpus(record.get("ReqTRES", ""), nodes),
        gpu_type=gpu_type_in(record["AllocTRES"]),
        cpu_time_s=duration_s(record.get("TotalCPU")),
        time_limit_s=duration_s(record["Timelimit"]),
        # 0: the site does not measure energy
        energy_j=count(record.get("ConsumedEnergyRaw", "")) or None,
    )


# What slurmctld remembers, from squeue


def _remembered(job_ids: Sequence[str]) -> dict[str, Run]:
    reading = _all_remembered()
    named = reading.outcomes | reading.by_number()
    return {job: replace(named[job], job_id=job) for job in job_ids if job in named}


def _all_remembered() -> _Reading:
    return remembered_in(listed(REMEMBERED_FIELDS, "all"))


def remembered_in(rows: Iterable[Record]) -> _Reading:
    """Return the outcomes of the jobs in squeue's records."""
    reading = _Reading()
    for row in rows:
        record = {name: row[field] for name, field in _REMEMBERED.items()}
        reading.add(record["JobID"], record)
    return reading


def _exit_status(text: str) -> int | None:
    """Return the exit status as a shell reports it, from Slurm's ``1:0`` (status:signal) or the
    wait status that squeue 22.05 writes; None: unreadable.
    """
    wait_status = count(text)
    if wait_status is not None:
        status, signal = wait_status >> 8 & 0xFF, wait_status & 0x7F
    elif (match := re.fullmatch(r"(\d{1,3}):(\d{1,3})", text)) is not None:
        status, signal = int(match[1]), int(match[2])
    else:
        return None
    return 128 + signal if signal and not status else status


def _requested_gpus(by_node: str, nodes: int | None) -> int | None:
    """Return the requested GPUs of all nodes, from the request per node (``gres:gpu:h200:1`` or
    ``gres/gpu:h200:1``); None: no GPUs.
    """
    requested = by_node.replace("gres:", "").replace("gres/", "")
    return sum(gres(requested).values()) * (nodes or 1) or None
