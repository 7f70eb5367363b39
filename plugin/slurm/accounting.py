"""What became of Slurm's jobs: from its accounting, else from what slurmctld remembers.

Slurm keeps a decision's stamp in the job's AdminComment, which no user can set. Of sacct no field
is asked for that a user writes; the controller is asked for JSON.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.scheduler import ENDED, EndedJobs, Outcome, stamped_decision
from berth.plugin.slurm import commands, remembered
from berth.plugin.slurm.records import (
    Record,
    count,
    gpu_peak_bytes,
    gpus_in,
    moment_s,
    node_peak_bytes,
)
from berth.plugin.slurm.states import state_of

SACCT_FIELDS = (
    "JobID",
    "JobIDRaw",
    "State",
    "Partition",
    "ElapsedRaw",
    "NodeList",
    "MaxRSS",
    "NTasks",
    "User",
    "Submit",
    "Start",
    "End",
    "ExitCode",
    "NNodes",
    "NCPUS",
    "AllocTRES",
    "TimelimitRaw",
    "ConsumedEnergyRaw",
    "TRESUsageInMax",
    "AdminComment",
)
_SACCT = ("sacct", "-a", "-n", "-P", "--noconvert", "-o", ",".join(SACCT_FIELDS))
_ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,TO"
_TIMEOUT_S = 60.0
"""For everything that ended in some hours; nobody waits for it."""
_MINUTE_S = 60.0
_DISABLED = "accounting storage is disabled"


@dataclass
class _Reading:
    """What was understood, and the first thing that was not."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """Each job's own number, by the name that its user knows (``7_2``)."""
    problem: str | None = None

    def by_number(self) -> dict[str, Outcome]:
        """By number: a name may change while slurmdbd learns of an array."""
        named = {self.numbers.get(name, name): outcome for name, outcome in self.outcomes.items()}
        return {number: replace(o, job_id=number) for number, o in named.items()}


def of_jobs(job_ids: Sequence[str]) -> dict[str, Outcome]:
    """By job id. Raises SchedulerError or ToolMissing."""
    if not job_ids:
        return {}
    try:
        text = commands.run((*_SACCT, "-j", ",".join(job_ids)), utc=True)
    except SchedulerError:
        return _remembered(job_ids)
    return parse_sacct(text)


def ended(since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
    """See Scheduler. Raises SchedulerError or ToolMissing."""
    window = ("-s", _ENDED_STATES, "-S", _utc(since_s), "-E", _utc(until_s + 1))
    try:
        text = commands.run((*_SACCT, *window), timeout_s=_TIMEOUT_S, utc=True)
    except ToolMissing:
        reading = _all_remembered()
    except SchedulerError as error:
        # An accounting that is only down has them later: nothing may be taken for it meanwhile.
        if _DISABLED not in error.message:
            raise
        reading = _all_remembered()
    else:
        reading = _read_sacct(text)
    found = tuple(
        outcome
        for outcome in reading.by_number().values()
        if outcome.state in ENDED
        and outcome.end_s is not None
        and since_s <= outcome.end_s <= until_s
        and known.get(outcome.job_id) != outcome.end_s
    )
    return EndedJobs(found, reading.problem)


def _utc(unix_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


# The accounting


def parse_sacct(text: str) -> dict[str, Outcome]:
    """From ``sacct -P`` lines. Raises SchedulerError where one cannot be read."""
    reading = _read_sacct(text)
    if reading.problem is not None:
        raise SchedulerError(reading.problem)
    return reading.outcomes


def _read_sacct(text: str) -> _Reading:
    """Every line that can be read; steps only add their peak memory to their job."""
    reading = _Reading()
    peaks: dict[str, int] = {}
    gpu_peaks: dict[str, int] = {}
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
            peak = count(record["MaxRSS"]) or 0
            held = node_peak_bytes(peak, record["NTasks"], record["NNodes"])
            peaks[job_id] = max(peaks.get(job_id, 0), held)
            on_gpu = gpu_peak_bytes(record["TRESUsageInMax"], record["NTasks"], record["AllocTRES"])
            gpu_peaks[job_id] = max(gpu_peaks.get(job_id, 0), on_gpu or 0)
        else:
            reading.outcomes[job_id] = _accounted(job_id, record)
            reading.numbers[job_id] = record["JobIDRaw"] or job_id
    for job_id, peak in peaks.items():
        if job_id in reading.outcomes:
            reading.outcomes[job_id] = replace(
                reading.outcomes[job_id],
                peak_memory_bytes=peak or None,
                peak_gpu_memory_bytes=gpu_peaks[job_id] or None,
            )
    return reading


def _accounted(job_id: str, record: Record) -> Outcome:
    minutes = count(record["TimelimitRaw"])
    return Outcome(
        job_id=job_id,
        state=state_of(record["State"]),
        queue=record["Partition"],
        elapsed_s=float(count(record["ElapsedRaw"]) or 0),
        nodes=record["NodeList"],
        user=record["User"],
        decision=(stamp := stamped_decision(record["AdminComment"])),
        stamp_lost=stamp is None and record["AdminComment"] != "",
        exit_status=_exit_status(record["ExitCode"]),
        submit_s=moment_s(record["Submit"], utc=True),
        start_s=moment_s(record["Start"], utc=True),
        end_s=moment_s(record["End"], utc=True),
        node_count=count(record["NNodes"]),
        cores=count(record["NCPUS"]),
        gpus=gpus_in(record["AllocTRES"]),
        time_limit_s=None if minutes is None else _MINUTE_S * minutes,
        energy_j=count(record["ConsumedEnergyRaw"]) or None,  # 0: nothing measures it
    )


# The controller


def _remembered(job_ids: Sequence[str]) -> dict[str, Outcome]:
    """Those of these jobs that slurmctld still knows, by the id that was asked for."""
    reading = _all_remembered()
    named = reading.outcomes | reading.by_number()
    found = {job_id: named[job_id] for job_id in job_ids if job_id in named}
    if reading.problem is not None and len(found) < len(job_ids):
        raise SchedulerError(reading.problem)
    return {job_id: replace(outcome, job_id=job_id) for job_id, outcome in found.items()}


def _all_remembered() -> _Reading:
    text = commands.run(remembered.COMMAND, timeout_s=_TIMEOUT_S, utc=True)
    reading = _Reading()
    for job in remembered.jobs_in(text):
        try:
            number, outcome = remembered.outcome_of(job)
        except SchedulerError as error:
            reading.problem = reading.problem or error.message
        else:
            reading.outcomes[outcome.job_id] = outcome
            reading.numbers[outcome.job_id] = number
    return reading


# Their notations


def _exit_status(text: str) -> int | None:
    """``1:0``: status and signal; as a shell would say it."""
    match = re.fullmatch(r"(\d{1,3}):(\d{1,3})", text)
    if match is None:
        return None
    status, signal = int(match[1]), int(match[2])
    return 128 + signal if signal and not status else status
