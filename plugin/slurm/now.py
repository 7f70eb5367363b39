"""How one job stands by ``squeue``: state, what it waits for, when it is expected to start."""

from __future__ import annotations

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler import JobNow
from berth.plugin.scheduler.jobs import NO_WAITING_ENDS
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import duration_s, moment_s
from berth.plugin.slurm.states import state_of

TIMEOUT_S = 5.0
_FIELDS = ("T", "P", "r", "S", "N", "M", "l")
"""State, partition, reason, start, nodes, time used, time limit: of squeue's ``--format``."""
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
    """None: slurmctld does not know it. Raises SchedulerError or ToolMissing."""
    form = "|".join(f"%{field}" for field in _FIELDS)
    words = ("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-o", form)
    try:
        text = commands.run(words, timeout_s=TIMEOUT_S)
    except SchedulerError as error:
        if "Invalid job id" in error.message:
            return None
        raise
    line = next((one for one in text.splitlines() if one.count("|") >= len(_FIELDS) - 1), None)
    if line is None:
        return None
    state, queue, reason, start, nodes, used, limit = line.rsplit("|", len(_FIELDS) - 1)
    found = state_of(state)
    return JobNow(
        found,
        queue,
        waits_for=waits_for(reason) if found == "pending" else None,
        start_s=moment_s(start.strip(), utc=False),
        nodes=nodes.strip(),
        elapsed_s=duration_s(used.strip()) if found != "pending" else None,
        time_limit_s=duration_s(limit.strip()),
    )


def waits_for(reason: str) -> str:
    """A reason of squeue in words, with Slurm's own word behind them."""
    word = reason.strip("() ").partition(",")[0]
    if not word or word == "None":
        return "the scheduler to look at it"
    meaning = _MEANING.get(word)
    if meaning is None and word.startswith(_LIMITS):
        meaning = "a limit of its user, account or QOS"
    return f"{meaning} ({word})" if meaning else word
