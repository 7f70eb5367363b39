"""Reads how Slurm's jobs ended: from accounting, or else from what slurmctld remembers.

Slurm keeps the id of Berth's decision in the job's AdminComment, which no user can set. The fields
requested from sacct include none that a user writes. slurmctld is read as JSON (``squeue --json``),
because there a user's text cannot imitate another field: in ``scontrol show job`` a job name such
as ``x UserId=root(0)``, or one with a line break, can. The JSON is decoded job by job: decoding it
in one call would block the daemon's answering thread.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from berth.pilot.errors import SchedulerError, ToolMissing
from berth.plugin.scheduler import ENDED, EndedJobs, Outcome, stamped_decision
from berth.plugin.scheduler.node_kinds import recorded_nodes
from berth.plugin.slurm import commands
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
    "TRESUsageInAve",
    "TRESUsageInTot",
    "TRESUsageOutTot",
    "TotalCPU",
    "AdminComment",
)
_SACCT = ("sacct", "-a", "-n", "-P", "--noconvert", "-o", ",".join(SACCT_FIELDS))
_ENDED_STATES = "BF,CA,CD,DL,F,NF,OOM,PR,TO"
_TIMEOUT_S = 60.0
"""Seconds allowed for reading all jobs that ended within some hours; no user waits for it."""
_MINUTE_S = 60.0
_DISABLED = "accounting storage is disabled"


@dataclass
class _Reading:
    """The result of reading jobs from Slurm: their outcomes, and the message of the first
    problem.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """Each job's own Slurm number, by the id that its user sees (``7_2`` for an array task)."""
    problem: str | None = None

    def by_number(self) -> dict[str, Outcome]:
        """Return the outcomes by job number, which is stable: the id that users see may change
        while slurmdbd records a job array.
        """
        named = {self.numbers.get(name, name): outcome for name, outcome in self.outcomes.items()}
        return {number: replace(o, job_id=number) for number, o in named.items()}


def of_jobs(job_ids: Sequence[str]) -> dict[str, Outcome]:
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


def parse_sacct(text: str) -> dict[str, Outcome]:
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
            largest_bytes = count(record["MaxRSS"]) or 0
            steps.setdefault(job_id, StepUsage()).add(largest_bytes, record["NNodes"], record)
        else:
            reading.outcomes[job_id] = _accounted(job_id, record)
            reading.numbers[job_id] = record["JobIDRaw"] or job_id
    for job_id, usage in steps.items():
        if job_id in reading.outcomes:
            outcome = reading.outcomes[job_id]
            reading.outcomes[job_id] = replace(
                outcome,
                peak_memory_bytes=usage.host_bytes or None,
                peak_gpu_memory_bytes=usage.gpu_bytes or None,
                disk_read_bytes=usage.disk_read_bytes or None,
                disk_written_bytes=usage.disk_written_bytes or None,
                gpu_utilisation=usage.gpu_mean(outcome.gpus, outcome.elapsed_s),
                gpu_utilisation_peak=usage.gpu_peak,
            )
    return reading


def _accounted(job_id: str, record: Record) -> Outcome:
    minutes = count(record["TimelimitRaw"])
    return Outcome(
        job_id=job_id,
        state=state_of(record["State"]),
        queue=record["Partition"],
        elapsed_s=float(count(record["ElapsedRaw"]) or 0),
        nodes=recorded_nodes(record["NodeList"]),
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
        gpu_type=gpu_type_in(record["AllocTRES"]),
        cpu_time_s=duration_s(record["TotalCPU"]),
        time_limit_s=None if minutes is None else _MINUTE_S * minutes,
        energy_j=count(record["ConsumedEnergyRaw"]) or None,  # 0: the site does not measure energy
    )


# Reading the output of squeue --json


def _remembered(job_ids: Sequence[str]) -> dict[str, Outcome]:
    """Return the outcomes of those of ``job_ids`` that slurmctld still knows, by the
    requested id.
    """
    reading = _all_remembered()
    named = reading.outcomes | reading.by_number()
    remembered = {job_id: named[job_id] for job_id in job_ids if job_id in named}
    if reading.problem is not None and len(remembered) < len(job_ids):
        raise SchedulerError(reading.problem)
    return {job_id: replace(outcome, job_id=job_id) for job_id, outcome in remembered.items()}


def _all_remembered() -> _Reading:
    text = commands.run(COMMAND, timeout_s=_TIMEOUT_S, utc=True)
    reading = _Reading()
    for job in jobs_in(text):
        try:
            number, outcome = outcome_of(job)
        except SchedulerError as error:
            reading.problem = reading.problem or error.message
        else:
            reading.outcomes[outcome.job_id] = outcome
            reading.numbers[outcome.job_id] = number
    return reading


# Slurm's formats


def _exit_status(text: str) -> int | None:
    """Return the exit status as a shell reports it, from Slurm's ``1:0`` (status:signal); None:
    unreadable.
    """
    match = re.fullmatch(r"(\d{1,3}):(\d{1,3})", text)
    if match is None:
        return None
    status, signal = int(match[1]), int(match[2])
    return 128 + signal if signal and not status else status


COMMAND = ("squeue", "-a", "-t", "all", "--json")
_decode = json.JSONDecoder(strict=False).raw_decode
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)


def jobs_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the job objects of ``squeue --json``. Raises SchedulerError where there is no list
    ``jobs``.
    """
    try:
        position = _after(text, 0, "{")
        while text[position] != "}":
            key, position = _decode(text, position)
            position = _after(text, position, ":")
            if key == "jobs":
                yield from _elements(text, position)
                return
            _, position = _decode(text, position)
            position = _after(text, position, ",")
    except (ValueError, IndexError, RecursionError):
        raise SchedulerError(f"squeue answered something unreadable: {text[:80]!r}") from None
    raise SchedulerError("squeue answered without a list of jobs")


def _elements(text: str, position: int) -> Iterator[Mapping[str, Any]]:
    position = _after(text, position, "[")
    while text[position] != "]":
        job, position = _decode(text, position)
        position = _after(text, position, ",")
        yield job


def _after(text: str, position: int, mark: str) -> int:
    """Return the position after ``mark`` and white space. Raises ValueError where ``mark`` is
    missing, except for a comma, which is optional.
    """
    while text[position].isspace():
        position += 1
    if text[position] == mark:
        position += 1
    elif mark != ",":
        raise ValueError(mark)
    while text[position].isspace():
        position += 1
    return position


def outcome_of(job: Mapping[str, Any]) -> tuple[str, Outcome]:
    """Return a job's Slurm number, and its outcome under the id that the user sees (``7_2``).

    Raises SchedulerError where a field does not have Slurm's format.
    """
    try:
        return _outcome(job)
    except _UNREADABLE as error:
        raise SchedulerError(
            f"squeue described a job unreadably: {type(error).__name__} {error}"[:300]
        ) from None


def _outcome(job: Mapping[str, Any]) -> tuple[str, Outcome]:
    number = _whole(job["job_id"])
    array, task = _whole(job.get("array_job_id")), _whole(job.get("array_task_id"))
    states = job["job_state"]
    start_s, end_s = _moment(job.get("start_time")), _moment(job.get("end_time"))
    status = state_of(str(states if isinstance(states, str) else states[0]))
    node_count = _whole(job.get("node_count"))
    minutes = _whole(job.get("time_limit"))
    tres = _text(job.get("tres_alloc_str")) or _text(job.get("tres_req_str"))
    user, comment = _text(job.get("user_name")), _text(job.get("admin_comment"))
    if number is None:
        raise ValueError("it has no number")
    return str(number), Outcome(
        job_id=f"{array}_{task}" if array and task is not None else str(number),
        state=status,
        queue=_text(job.get("partition")),
        elapsed_s=_elapsed_s(job, status, start_s, end_s),
        nodes=recorded_nodes(_text(job.get("nodes"))),
        user=user or f"uid:{_whole(job.get('user_id'))}",
        decision=(stamp := stamped_decision(comment)),
        stamp_lost=stamp is None and comment != "",
        exit_status=_wait_status(job.get("exit_code")),
        submit_s=_moment(job.get("submit_time")),
        start_s=start_s,
        end_s=end_s,
        node_count=node_count,
        cores=_whole(job.get("cpus")),
        gpu_type=gpu_type_in(tres),
        gpus=gpus_in(tres) or _requested_gpus(_text(job.get("tres_per_node")), node_count),
        time_limit_s=None if minutes is None else _MINUTE_S * minutes,
    )


def _whole(value: Any) -> int | None:
    """Return a whole number as Slurm 22.05 writes it, or as later versions do (``set``,
    ``infinite``, ``number``); None: unset or infinite.
    """
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value["number"]
    if value is None or value == "":
        return None
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return None if value in (0xFFFFFFFE, 0xFFFFFFFF) else value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _moment(value: Any) -> float | None:
    seconds = _whole(value)
    return float(seconds) if seconds else None


def _elapsed_s(
    job: Mapping[str, Any], state: str, start_s: float | None, end_s: float | None
) -> float:
    """Return how many seconds the job ran, without the time during which it was suspended."""
    until_s = time.time() if state == "running" else end_s
    if state == "pending" or start_s is None or until_s is None:
        return 0.0
    suspended_s, before_s = _moment(job.get("suspend_time")), _moment(job.get("pre_sus_time"))
    if suspended_s is None:
        return max(0.0, until_s - start_s)
    return (before_s or 0.0) + max(0.0, until_s - suspended_s)


def _wait_status(value: Any) -> int | None:
    """Return the exit status as a shell reports it, from a wait status or from its parts; None:
    unset.
    """
    if isinstance(value, Mapping):
        status, signalled = _whole(value.get("return_code")), value.get("signal") or {}
        signal = _whole(signalled.get("id", signalled.get("signal_id"))) or 0
    else:
        raw = _whole(value)
        status, signal = (None, 0) if raw is None else (raw >> 8 & 0xFF, raw & 0x7F)
    return 128 + signal if signal and not status else status


def _requested_gpus(by_node: str, nodes: int | None) -> int | None:
    """Return the requested GPUs of all nodes, from the request per node (``gres:gpu:h200:1`` or
    ``gres/gpu:h200:1``); None: no GPUs.
    """
    requested = by_node.replace("gres:", "").replace("gres/", "")
    return sum(gres(requested).values()) * (nodes or 1) or None
