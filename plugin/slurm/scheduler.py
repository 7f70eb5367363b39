"""Slurm behind the Scheduler door, by its commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import ClusterFacts, Job, Outcome
from berth.plugin.slurm import commands
from berth.plugin.slurm.cluster import read_cluster
from berth.plugin.slurm.records import Record, duration_s, records
from berth.plugin.slurm.render import sbatch
from berth.policies.values import Edit, Request

_SACCT_FIELDS = "JobID,State,Partition,ElapsedRaw,NodeList,MaxRSS"
_SACCT = ("sacct", "-a", "-n", "-P", "--noconvert", "-o", _SACCT_FIELDS)
_STATES = {
    "PENDING": "pending",
    "REQUEUED": "pending",
    "CONFIGURING": "pending",
    "RUNNING": "running",
    "COMPLETING": "running",
    "SUSPENDED": "running",
    "COMPLETED": "completed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out-of-memory",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "PREEMPTED": "cancelled",
}


class Slurm:
    """The Scheduler that speaks to Slurm. Holds nothing: each call asks again."""

    name = "slurm"

    def read(self) -> ClusterFacts:
        """See Scheduler."""
        return replace(read_cluster(), name=_cluster_name())

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """See Scheduler."""
        return sbatch(job, request, edit)

    def submit(self, command: Sequence[str]) -> str:
        """See Scheduler. Slurm's own words go on where it refuses the job."""
        answer = commands.run((command[0], "--parsable", *command[1:]))
        job_id = answer.strip().split(";")[0]
        if re.fullmatch(r"\d+", job_id) is None:
            raise SchedulerError(f"sbatch answered {answer.strip()[:80]!r} instead of a job id")
        return job_id

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome]:
        """See Scheduler. From the accounting; without it from what slurmctld remembers."""
        if not job_ids:
            return {}
        try:
            text = commands.run((*_SACCT, "-j", ",".join(job_ids)))
        except SchedulerError:
            return _remembered(job_ids)
        return parse_sacct(text)


def _cluster_name() -> str:
    text = commands.run(("scontrol", "show", "config"))
    found = re.search(r"^ClusterName\s*=\s*(\S+)", text, re.MULTILINE)
    return "slurm" if found is None else found.group(1)


def parse_sacct(text: str) -> dict[str, Outcome]:
    """From ``sacct -P`` lines; steps only add their peak memory to their job."""
    found: dict[str, Outcome] = {}
    peaks: dict[str, int] = {}
    for line in text.splitlines():
        parts = line.split("|")
        if len(parts) != len(_SACCT_FIELDS.split(",")):
            raise SchedulerError(f"sacct answered something unreadable: {line[:80]!r}")
        job, state, queue, elapsed, nodes, rss = parts
        job_id, dot, _ = job.partition(".")
        if dot:
            peak = int(rss) if rss.isascii() and rss.isdigit() and len(rss) < 20 else 0
            peaks[job_id] = max(peaks.get(job_id, 0), peak)
            continue
        seconds = float(elapsed) if elapsed.isascii() and elapsed.isdigit() else 0.0
        found[job_id] = Outcome(job_id, _state(state), queue, seconds, nodes)
    return {
        job_id: Outcome(o.job_id, o.state, o.queue, o.elapsed_s, o.nodes, peaks.get(job_id) or None)
        for job_id, o in found.items()
    }


def _remembered(job_ids: Sequence[str]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for job_id in job_ids:
        try:
            text = commands.run(("scontrol", "-o", "show", "job", job_id))
        except SchedulerError as error:
            if "Invalid job id" in error.message:
                continue
            raise
        for record in records(text, "JobId"):
            found[job_id] = _job(job_id, record)
    return found


def _job(job_id: str, record: Record) -> Outcome:
    nodes = record.get("NodeList", "")
    return Outcome(
        job_id=job_id,
        state=_state(record.get("JobState", "")),
        queue=record.get("Partition", ""),
        elapsed_s=duration_s(record.get("RunTime")) or 0.0,
        nodes="" if nodes in ("(null)", "None assigned") else nodes,
    )


def _state(text: str) -> str:
    """``CANCELLED by 1000`` is ``cancelled``."""
    return _STATES.get(text.partition(" ")[0].rstrip("+"), "unknown")
