"""What became of jobs: from job-list's records, or from eventlogs of jobs it has forgotten."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.flux.frobnicator import at
from berth.plugin.scheduler import Outcome

_RUN, _INACTIVE = 16, 64
"""States of RFC 21 as job-list numbers them; CLEANUP (32) still counts as running."""
_RESULTS = {1: "completed", 2: "failed", 4: "cancelled", 8: "timeout"}


def parse_outcomes(answers: Mapping[str, Any]) -> dict[str, Outcome]:
    """By job id, from what ``services.py jobs`` prints. Raises SchedulerError."""
    found = {}
    for job_id, answer in answers.items():
        try:
            if "job" in answer:
                found[job_id] = _listed(job_id, answer["job"])
            elif "eventlog" in answer:
                found[job_id] = _logged(job_id, answer)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise SchedulerError(
                f"Flux's record of job {job_id} cannot be read: {type(error).__name__} {error}"
            ) from None
    return found


def _listed(job_id: str, job: Mapping[str, Any]) -> Outcome:
    number = job["state"]
    if number < _RUN:
        state = "pending"
    elif number < _INACTIVE:
        state = "running"
    else:
        state = _RESULTS.get(job.get("result", 0), "unknown")
    started_s, ended_s = job.get("t_run"), job.get("t_cleanup")
    return Outcome(
        job_id=job_id,
        state=state,
        queue=str(job.get("queue", "")),
        elapsed_s=_elapsed_s(started_s, ended_s),
        nodes=str(job.get("nodelist", "")),
    )


def _logged(job_id: str, answer: Mapping[str, Any]) -> Outcome:
    """From the eventlog (RFC 21): the first exception that ends a job says how it ended."""
    state, started_s, ended_s = "pending", None, None
    fatal: str | None = None
    for line in answer["eventlog"].splitlines():
        event = json.loads(line)
        name, context = event["name"], event.get("context") or {}
        if name == "alloc":
            state, started_s = "running", float(event["timestamp"])
        elif name == "exception" and context.get("severity") == 0:
            fatal = fatal or str(context.get("type"))
            ended_s = ended_s or float(event["timestamp"])
        elif name == "finish":
            ended_s = float(event["timestamp"])
            state = "completed" if context.get("status") == 0 else "failed"
        elif name == "clean" and state in ("pending", "running"):
            state = "failed"
    if fatal is not None and state != "running":
        state = {"cancel": "cancelled", "timeout": "timeout"}.get(fatal, "failed")
    jobspec = json.loads(answer.get("jobspec") or "{}")
    return Outcome(
        job_id=job_id,
        state=state,
        queue=str(at(jobspec, "attributes", "system", "queue") or ""),
        elapsed_s=_elapsed_s(started_s, ended_s),
    )


def _elapsed_s(started_s: float | None, ended_s: float | None) -> float:
    if started_s is None:
        return 0.0
    return max(0.0, (time.time() if ended_s is None else ended_s) - started_s)
