"""Pending jobs of a Flux instance: what was asked, where they wait, where they would go now.

Flux can update a pending job's queue and duration (`job-manager.update`), and checks both; nothing
else of it. So a job moves only where the answer for what its user asked needs the resources that
the job already has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import (
    ANONYMOUS,
    Queue,
    Refused,
    Shape,
    at,
    carry_out,
    check,
    copied,
    describe,
)

_STAMP = re.compile(r"\bberth/1 id=([0-9a-z]{1,32}) action=edit\b")
_STARTED = ("RUN", "CLEANUP", "INACTIVE")
_NOT_THAT_FORM = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class Pending:
    """One job that has not started: as its user submitted it, and as it was accepted."""

    job_id: str
    userid: int
    original: Mapping[str, Any]
    current: Mapping[str, Any]

    @property
    def queue(self) -> str:
        """The queue it waits in."""
        return str(at(self.current, "attributes", "system", "queue") or ANONYMOUS)

    @property
    def placed_by(self) -> str | None:
        """The id of the decision that chose its queue; None: the user, or Flux's default, did."""
        stamp = at(self.current, "attributes", "user", "berth", "decision")
        found = _STAMP.search(stamp) if isinstance(stamp, str) else None
        return found[1] if found is not None else None


def pending(job_ids: Sequence[str] = ()) -> list[Pending]:
    """The pending ones of these jobs; of all that we may see where none is named.

    Raises SchedulerError or ToolMissing.
    """
    text = commands.run("jobs", "-A", "--count=0", "--json", "--filter=pending", *job_ids)
    try:
        listed = json.loads(text)
        if not isinstance(listed, dict):
            raise TypeError("not an object")
        # One job that was named comes without the list.
        jobs = listed["jobs"] if "jobs" in listed else [listed] * bool(listed)
        found = [(_id(job), int(job["userid"])) for job in jobs if job["state"] not in _STARTED]
    except _NOT_THAT_FORM:
        raise SchedulerError(f"flux jobs answered something unreadable: {text[:80]!r}") from None
    return [
        Pending(job_id, userid, jobspec_of(job_id, original=True), jobspec_of(job_id))
        for job_id, userid in found
    ]


def _id(job: Mapping[str, Any]) -> str:
    return str(job.get("jobid") or job["id"])


def jobspec_of(job_id: str, *, original: bool = False) -> dict[str, Any]:
    """A job's jobspec: with its updates, or as its user submitted it.

    Raises SchedulerError or ToolMissing.
    """
    words = ["--original"] if original else []
    text = commands.run("job", "info", *words, job_id, "jobspec")
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        spec = None
    if not isinstance(spec, dict):
        raise SchedulerError(f"the jobspec of {job_id} cannot be read")
    return spec


def as_asked(job: Pending, queues: Mapping[str, Queue]) -> dict[str, Any] | None:
    """What its user asked, in the protocol's words; None where the form is not known."""
    spec = dict(job.original)
    try:
        return describe(spec, job.userid, Shape(spec), dict(queues))
    except _NOT_THAT_FORM:
        return None


def obstacle(
    job: Pending,
    edits: Mapping[str, Any],
    queues: Mapping[str, Queue],
    requires: Mapping[str, Sequence[str]],
    auto: str,
) -> str | None:
    """Why the pending job cannot become what ``edits`` make of the original; None: it can."""
    spec = copied(dict(job.original))
    try:
        shape = Shape(spec)
        check(dict(edits), describe(spec, job.userid, shape, dict(queues)), shape, auto)
        carry_out(spec, dict(edits), shape, dict(queues))
    except Refused as problem:
        return str(problem)
    except _NOT_THAT_FORM:
        return "its jobspec has a form that Berth does not know"
    if spec["resources"] != job.current.get("resources"):
        return "it would need other resources; cancel it and submit it again"
    asked = _properties(job.original)
    added = _properties(job.current) - asked - set(requires.get(job.queue, ()))
    if "features" in edits or added:
        return "it would need other properties; cancel it and submit it again"
    return None


def _properties(spec: Mapping[str, Any]) -> set[str]:
    found = at(spec, "attributes", "system", "constraints", "properties")
    return {str(name) for name in found} if isinstance(found, list) else set()


def move(job_id: str, queue: str, *, duration_s: float | None = None) -> None:
    """Update a pending job. Raises SchedulerError in Flux's words where it refuses."""
    updates = [f"queue={queue}"]
    if duration_s is not None:
        updates.append(f"duration={duration_s:g}s")
    commands.run("update", job_id, *updates)
