"""Asks Slurm what became of jobs: its accounting, or else what slurmctld remembers.

Every question asks for the same columns. Slurm keeps the id of Berth's decision in the job's
AdminComment, which no user can set; users may put separators and line breaks in job names and
command lines, so fields are separated by random text that nobody can guess.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.pilot.run import ENDED, Run
from berth.plugin.scheduler import EndedJobs
from berth.plugin.scheduler.past_jobs import ReadJobs
from berth.plugin.slurm import commands
from berth.plugin.slurm.present_jobs import listed
from berth.plugin.slurm.records import Record
from berth.plugin.slurm.sacct import ALL_COLUMNS, RecordReading, joined, read_sacct

_REMEMBERED = {
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
    "TresPerNode": "tres-per-node",
    "Timelimit": "TimeLimit",
    "AdminComment": "admin_comment",
}
"""Columns, with the names under which ``squeue --Format`` has the same."""
REMEMBERED_FIELDS = tuple(_REMEMBERED.values())
_ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,TO"
_TIMEOUT_S = 60.0
"""Seconds allowed for reading all jobs that ended within some hours; no user waits for it."""
_MONTHS_TIMEOUT_S = 600.0
_DISABLED = "accounting storage is disabled"
_SOURCE = "sacct"


def _asked(
    words: Sequence[str], cluster: str = "", *, timeout_s: float = _TIMEOUT_S, every: bool
) -> ReadJobs:
    bar = f"<{secrets.token_hex(8)}>"
    command = ("sacct", "-a", "-n", "-P", f"--delimiter={bar}", "--noconvert", *words)
    text = commands.run(
        (*command, "-o", ",".join(ALL_COLUMNS)), timeout_s=timeout_s, utc=True
    )  # fmt: skip
    lines = [bar.join(ALL_COLUMNS), *joined(text, bar, len(ALL_COLUMNS))]
    return read_sacct(lines, cluster, source=_SOURCE, utc=True, bar=bar, every=every)


def _between(since_s: float, until_s: float) -> tuple[str, ...]:
    begin, end = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))
        for unix_s in (max(since_s, 0.0), until_s + 1.0)
    )
    return ("-S", begin, "-E", end)


def past_jobs(cluster: str, since_s: float) -> ReadJobs:
    """Return the jobs that ran and ended since a Unix time. Raises SchedulerError, ToolMissing."""
    window = _between(since_s, time.time())
    return _asked(window, cluster, timeout_s=_MONTHS_TIMEOUT_S, every=False)


def of_jobs(job_ids: Sequence[str]) -> dict[str, Run]:
    """Return these jobs as they are now, by the id that was asked for. Raises SchedulerError or
    ToolMissing.
    """
    if not job_ids:
        return {}
    try:
        read = _asked(("-j", ",".join(job_ids)), every=True)
    except SchedulerError:
        read = _remembered()
    else:
        if problem := _problem(read):
            raise SchedulerError(problem)
    named = {job.raw_id: job for job in read.jobs.values()} | read.jobs
    return {job: replace(named[job], job_id=job) for job in job_ids if job in named}


def ended(since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
    """Return the jobs that ended between two Unix times; see ``Scheduler.ended``.

    Raises SchedulerError or ToolMissing.
    """
    try:
        read = _asked(("-s", _ENDED_STATES, *_between(since_s, until_s)), every=True)
    except ToolMissing:
        read = _remembered()
    except SchedulerError as error:
        # Where slurmdbd is only down, accounting will report these jobs later. slurmctld, which
        # has forgotten some of them, must not be asked instead.
        if _DISABLED not in error.message:
            raise
        read = _remembered()
    outcomes = tuple(
        job
        for job in read.jobs.values()
        if job.state in ENDED
        and job.end_s is not None
        and since_s <= job.end_s <= until_s
        and known.get(job.job_id) != job.end_s
    )
    return EndedJobs(outcomes, _problem(read), read.unmoved)


def _problem(read: ReadJobs) -> str | None:
    if not read.broken:
        return None
    return f"{_SOURCE} answered something unreadable: {read.examples[0]}"


def _remembered() -> ReadJobs:
    return remembered_in(listed(REMEMBERED_FIELDS, "all"))


def remembered_in(rows: Iterable[Record]) -> ReadJobs:
    """Return the jobs in squeue's records."""
    reading = RecordReading("", "squeue", utc=True, every=True)
    for number, row in enumerate(rows, 1):
        record = {name: row[field] for name, field in _REMEMBERED.items()}
        reading.take(number, record["JobID"], record)
    return reading.done()
