"""Jobs from Flux's list: ``flux jobs -A -a --json``. Flux records no peak memory.

The list does not say which jobs one waited for; an archive does (``job_archive``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.progress import steps
from berth.plugin.flux import commands
from berth.plugin.history.reading import Read, Unreadable, checked_times, name_of
from berth.plugin.store.records import PastJobRecord

SQLITE = "SQLite format 3"
"""How an archive of jobs begins, see ``job_archive``."""
_RESULTS = {"COMPLETED": "completed", "FAILED": "failed", "CANCELED": "cancelled",
            "TIMEOUT": "timeout"}  # fmt: skip


_ASK_TIMEOUT_S = 600.0
_LARGEST = 1e18
_LONGEST_ID = 64


def ask(cluster: str, since_s: float) -> Read:
    """Jobs that Flux has since a Unix time. Raises SchedulerError and ToolMissing."""
    text = commands.run(
        "jobs", "-A", "-a", "--json", "--count=0", f"--since={since_s:.0f}",
        timeout_s=_ASK_TIMEOUT_S,
    )  # fmt: skip
    return read_flux(text, cluster, source="flux jobs")


def read_flux(text: str, cluster: str, *, source: str) -> Read:
    """Every inactive job that ran. Raises DocumentError where the text is no list of jobs."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise _no_list(source) from None
    if isinstance(answer, dict) and "jobs" not in answer and "id" in answer:
        answer = {"jobs": [answer]}  # one job is written without a list
    jobs = answer.get("jobs") if isinstance(answer, dict) else None
    if not isinstance(jobs, list):
        raise _no_list(source)
    read = Read()
    for number, job in enumerate(steps("jobs read", jobs), 1):
        try:
            found = _job(job, cluster)
        except Unreadable as error:
            read.refuse(number, json.dumps(job)[:200], error)
            continue
        if found is None:
            read.not_ended += 1
        else:
            read.add(found)
    return read


def _no_list(source: str) -> DocumentError:
    return DocumentError(
        source, "is not Flux's list of jobs", hint="write it with: flux jobs -A -a --json"
    )


def _job(job: Any, cluster: str) -> PastJobRecord | None:
    if not isinstance(job, dict):
        raise Unreadable("a job is not an object")
    if job.get("state") != "INACTIVE":
        return None
    identity = job.get("id")
    known = isinstance(identity, int | str) and not isinstance(identity, bool)
    job_id = name_of(str(identity))[:_LONGEST_ID] if known else ""
    if not job_id:
        raise Unreadable("no id")
    start_s, end_s = _number(job, "t_run"), _number(job, "t_cleanup")
    if end_s is None:
        end_s = _number(job, "t_inactive")
    if not start_s or end_s is None:
        return None
    submit_s = _number(job, "t_submit")
    elapsed_s = checked_times(submit_s, start_s, end_s, None)
    user = job.get("username")
    return PastJobRecord(
        cluster=cluster,
        job_id=job_id,
        user=name_of(user if isinstance(user, str) and user else f"uid:{job.get('userid')}"),
        account=_text(job, "bank"),
        name=_text(job, "name"),
        queue=_text(job, "queue"),
        state=_RESULTS.get(str(job.get("result")), "failed"),
        submit_s=start_s if submit_s is None else submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(_count(job, "ncores") or 1, 1),
        nodes=_count(job, "nnodes") or 1,
        gpus=_count(job, "ngpus"),
        time_limit_s=_number(job, "duration") or None,
    )


def _number(job: Mapping[str, Any], key: str) -> float | None:
    value = job.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{key} is not a number")
    if not -_LARGEST < value < _LARGEST:  # nor is NaN
        raise Unreadable(f"{key} is no number that can be")
    return float(value)


def _count(job: Mapping[str, Any], key: str) -> int | None:
    value = _number(job, key)
    return int(value) if value is not None and 0 < value < 2**30 else None


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    return name_of(value) if isinstance(value, str) else ""
