"""Reads how Flux's jobs ended: from job-list's records, or from eventlogs of jobs it has
forgotten.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.pilot.run import Run
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import ANONYMOUS, one_line, value_at
from berth.plugin.scheduler import EndedJobs, stamped_decision
from berth.plugin.usernames import name_of

_LONGEST_PROBLEM = 300
_RUN, _INACTIVE = 16, 64
"""Job states (RFC 21) as job-list numbers them; CLEANUP (32) still counts as running."""
_RESULTS = {1: "completed", 2: "failed", 4: "cancelled", 8: "timeout"}


def parse_ended(lines: Iterable[str]) -> EndedJobs:
    """Parse the lines of ``services.py ended``; unreadable lines are left out and the first is
    reported.
    """
    outcomes, problem = [], None
    for line in lines:
        try:
            answer = json.loads(line)
            error = answer.get("error")
            if error is None:
                outcomes.append(_ended(answer))
                continue
        except commands.UNEXPECTED as error:
            refused = f"Flux's record of a job cannot be read: {type(error).__name__} {error}"
        else:
            refused = f"Flux does not tell the jobspec of job {answer.get('id')}: {error}"
            if answer.get("errno") == errno.EPERM:
                refused = "only the owner of the Flux instance may read other users' jobspecs"
        problem = problem or one_line(refused, _LONGEST_PROBLEM)
    return EndedJobs(tuple(outcomes), problem)


def _ended(answer: Mapping[str, Any]) -> Run:
    outcome = _listed(str(answer["id"]), answer["job"])
    stamp, gpus = answer.get("stamp"), answer.get("gpus")
    return replace(
        outcome,
        partition=outcome.partition or ANONYMOUS,
        decision=stamped_decision(stamp) if isinstance(stamp, str) else None,
        gpus=None if gpus is None else int(gpus),
        end_s=float(answer["job"]["t_inactive"]),
    )


def parse_outcomes(answers: Mapping[str, Any]) -> dict[str, Run]:
    """Return outcomes by job id, from the output of ``services.py jobs``. Raises SchedulerError."""
    outcomes = {}
    for job_id, answer in answers.items():
        try:
            if "job" in answer:
                outcomes[job_id] = _listed(job_id, answer["job"])
            elif "eventlog" in answer:
                outcomes[job_id] = _logged(job_id, answer)
        except commands.UNEXPECTED as error:
            problem = f"record of job {job_id} cannot be read: {type(error).__name__} {error}"
            raise SchedulerError(one_line(f"Flux's {problem}", _LONGEST_PROBLEM)) from None
    return outcomes


def _listed(job_id: str, job: Mapping[str, Any]) -> Run:
    number = job["state"]
    if number < _RUN:
        state = "pending"
    elif number < _INACTIVE:
        state = "running"
    else:
        state = _RESULTS.get(job.get("result", 0), "unknown")
    started_s, ended_s = job.get("t_run"), job.get("t_cleanup")
    return Run(
        cluster="",
        job_id=job_id,
        state=state,
        partition=str(job.get("queue", "")),
        elapsed_s=_elapsed_s(started_s, ended_s),
        node_list=str(job.get("nodelist", "")),
        user=name_of(int(job["userid"])) if "userid" in job else "",
        exit_status=_exit_status(job.get("waitstatus")),
        submit_s=_number(job.get("t_submit")),
        start_s=_number(started_s),
        end_s=_number(ended_s),
        nodes=_count(job.get("nnodes")),
        cores=_count(job.get("ncores")),
        time_limit_s=_number(job.get("duration")) or None,
    )


def _exit_status(wait_status: Any) -> int | None:
    """Return the exit status as a shell reports it, from the status of wait(2); None: no status."""
    if wait_status is None:
        return None
    signal = int(wait_status) & 127
    return 128 + signal if signal else int(wait_status) >> 8 & 255


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _logged(job_id: str, answer: Mapping[str, Any]) -> Run:
    """Derive the outcome from the eventlog (RFC 21); the first fatal exception determines the
    state.
    """
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
    return Run(
        cluster="",
        job_id=job_id,
        state=state,
        partition=str(value_at(jobspec, "attributes", "system", "queue") or ""),
        elapsed_s=_elapsed_s(started_s, ended_s),
    )


def _elapsed_s(started_s: float | None, ended_s: float | None) -> float:
    if started_s is None:
        return 0.0
    return max(0.0, (time.time() if ended_s is None else ended_s) - started_s)
