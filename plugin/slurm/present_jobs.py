"""The jobs that run and wait by ``squeue``, of Slurm 22.05 to 26.05."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from berth.plugin.scheduler import PresentJob, stamped_decision
from berth.plugin.scheduler.host_lists import hostlist
from berth.plugin.slurm import commands
from berth.plugin.slurm.records import count, duration_s, gpus_in, moment_s, names
from berth.plugin.slurm.states import state_of

FIELDS = (
    "JobArrayID", "State", "Partition", "UserName", "Account", "NumNodes", "NumCPUs", "NumTasks",
    "TimeLimit", "SubmitTime", "StartTime", "Reason", "PriorityLong", "tres", "tres-per-node",
    "tres-per-job", "tres-per-task", "NodeList", "admin_comment", "Name",
)  # fmt: skip
"""Of squeue's ``--Format``."""
_STATES = "PD,CF,R,CG,S,SI,SO"
_TIMEOUT_S = 60.0
_TURN = frozenset(
    ("None", "Priority", "Resources", "", "Nodes required for job are DOWN")
)  # fmt: skip
"""Reasons of jobs that wait for their turn or for room, up to the first comma. The last goes on
``DRAINED or reserved for jobs in higher priority partitions``: so wait jobs of several partitions.
"""

Fields = Mapping[str, str]


def ask() -> tuple[PresentJob, ...]:
    """An array's waiting tasks one by one. Raises SchedulerError or ToolMissing."""
    # Users write names of jobs, with bars and line ends in them; this they cannot guess.
    bar = f"<{secrets.token_hex(8)}>"
    form = ",".join(f"{name}:{bar}" for name in FIELDS)
    text = commands.run(
        ("squeue", "-a", "-h", "-r", "-t", _STATES, "-O", form), timeout_s=_TIMEOUT_S, utc=True
    )
    return parse(text, bar)


def parse(text: str, bar: str) -> tuple[PresentJob, ...]:
    """From squeue's text, ``bar`` behind each field. What is no job is left out."""
    parts = text.split(bar)
    size = len(FIELDS)
    rows = (parts[at : at + size] for at in range(0, len(parts) - size + 1, size))
    fields = (dict(zip(FIELDS, (one.strip() for one in row), strict=True)) for row in rows)
    return tuple(job for one in fields if (job := _job(one)) is not None)


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
        may_start=running
        or fields["Reason"].strip("()").replace("_", " ").partition(",")[0] in _TURN,
        account="" if fields["Account"] == "(null)" else fields["Account"],
        name=fields["Name"],
        nodes=nodes,
        gpus=_gpus(fields, nodes),
        node_names=tuple(hostlist(fields["NodeList"])) if running else (),
        priority=float(count(fields["PriorityLong"]) or 0),
        time_limit_s=duration_s(fields["TimeLimit"]),
        start_s=moment_s(fields["StartTime"], utc=True) if running else None,
        decision=stamped_decision(fields["admin_comment"]),
    )


def _reason(fields: Fields) -> str:
    return fields["Reason"].strip("()").replace("_", " ").partition(",")[0]


def _gpus(fields: Fields, nodes: int) -> int:
    """In all: as they are accounted for, else (AccountingStorageTRES) as they were asked."""
    accounted = gpus_in(fields["tres"])
    if accounted:
        return accounted
    tasks = count(fields["NumTasks"]) or 1
    for name, each in (("tres-per-job", 1), ("tres-per-node", nodes), ("tres-per-task", tasks)):
        asked = gpus_in(fields[name].replace("gres:", "").replace("gres/", ""))
        if asked:
            return asked * each
    return 0
