"""The jobs that run and wait by ``flux jobs``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS
from berth.plugin.scheduler import PresentJob
from berth.plugin.scheduler.host_lists import hostlist

_TIMEOUT_S = 60.0
_HELD = 0
"""Urgency of a job that is held."""
_BEFORE_TURN = ("DEPEND", "PRIORITY")


def ask() -> tuple[PresentJob, ...]:
    """Raises SchedulerError or ToolMissing."""
    words = ("jobs", "-A", "--json", "--count=0", "--filter=pending,running")
    return parse(commands.run(*words, timeout_s=_TIMEOUT_S))


def parse(text: str) -> tuple[PresentJob, ...]:
    """From Flux's list. Raises SchedulerError where it cannot be read."""
    try:
        answer = json.loads(text)
        jobs = answer.get("jobs", [answer] * bool(answer))  # one job is written without a list
        return tuple(_job(job) for job in jobs)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise SchedulerError(f"flux jobs answered something unreadable: {text[:80]!r}") from None


def _job(job: Mapping[str, Any]) -> PresentJob:
    state = str(job["state"])
    running = state in ("RUN", "CLEANUP")
    urgency = job.get("urgency", 16)
    return PresentJob(
        job_id=str(job.get("jobid") or job["id"]),
        user=str(job.get("username") or job["userid"]),
        queues=(str(job.get("queue") or ANONYMOUS),),
        running=running,
        cores=max(1, int(job.get("ncores") or job.get("ntasks") or 1)),
        submit_s=_finite(job["t_submit"]),
        may_start=running or (urgency != _HELD and state not in _BEFORE_TURN),
        account=str(job.get("bank") or ""),
        name=str(job.get("name") or ""),
        nodes=max(1, int(job.get("nnodes") or 1)),
        gpus=int(job.get("ngpus") or 0),
        node_names=tuple(hostlist(job["nodelist"])) if running and job.get("nodelist") else (),
        priority=_finite(job.get("priority") or 0),
        time_limit_s=_finite(job.get("duration") or 0) or None,
        start_s=_finite(job["t_run"]) if running else None,
    )


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)
