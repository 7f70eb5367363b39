"""Requests new decisions for pending jobs that Berth placed, and moves jobs whose best queue
changed.

Flux can update only the queue and the duration of a pending job (`job-manager.update`), and checks
both. So a job moves only where the new decision needs the resources that the job already requests.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import BerthError, SchedulerError
from berth.pilot.progress import steps
from berth.plugin.daemon.client import ask
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import (
    ANONYMOUS,
    ConfiguredQueue,
    EditRefused,
    Shape,
    carry_out,
    check,
    copied,
    describe,
    queues_of,
    value_at,
)
from berth.plugin.scheduler import Replacing
from berth.plugin.site.site import Site
from berth.policies.codes import Code

_STAMP = re.compile(r"\bberth/1 id=([0-9a-z]{1,32}) action=edit\b")
_STARTED = ("RUN", "CLEANUP", "INACTIVE")


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that has not started: the jobspec that its user submitted, and the present one."""

    job_id: str
    userid: int
    original: Mapping[str, Any]
    current: Mapping[str, Any]

    @property
    def queue(self) -> str:
        """Return the queue in which the job waits."""
        return str(value_at(self.current, "attributes", "system", "queue") or ANONYMOUS)

    @property
    def placed_by(self) -> str | None:
        """Return the id of the decision that chose the job's queue; None: its user, or Flux, chose
        it.
        """
        stamp = value_at(self.current, "attributes", "user", "berth", "decision")
        match = _STAMP.search(stamp) if isinstance(stamp, str) else None
        return match[1] if match is not None else None


def pending(job_ids: Sequence[str] = ()) -> list[Pending]:
    """Return the pending jobs among ``job_ids``; without ids, all pending jobs that this user may
    see.

    Raises SchedulerError or ToolMissing.
    """
    text = commands.run("jobs", "-A", "--count=0", "--json", "--filter=pending", *job_ids)
    jobs = commands.listed_jobs(text)
    try:
        waiting = [
            (str(job.get("jobid") or job["id"]), int(job["userid"]))
            for job in jobs
            if job["state"] not in _STARTED
        ]
    except commands.UNEXPECTED:
        raise SchedulerError(f"flux jobs answered something unreadable: {text[:80]!r}") from None
    return [
        Pending(job_id, userid, jobspec_of(job_id, original=True), jobspec_of(job_id))
        for job_id, userid in waiting
    ]


def jobspec_of(job_id: str, *, original: bool = False) -> dict[str, Any]:
    """Return a job's present jobspec, or with ``original`` the jobspec that its user submitted.

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


def as_asked(job: Pending, queues: Mapping[str, ConfiguredQueue]) -> dict[str, Any] | None:
    """Return the user's original request in the terms of the submit protocol; None: unknown jobspec
    form.
    """
    spec = dict(job.original)
    try:
        return describe(spec, job.userid, Shape(spec), dict(queues))
    except commands.UNEXPECTED:
        return None


def obstacle(
    job: Pending,
    edits: Mapping[str, Any],
    queues: Mapping[str, ConfiguredQueue],
    requires: Mapping[str, Sequence[str]],
    auto: str,
) -> str | None:
    """Return why the pending job cannot be changed to its original jobspec with ``edits``; None: it
    can.
    """
    spec = copied(dict(job.original))
    try:
        shape = Shape(spec)
        check(dict(edits), describe(spec, job.userid, shape, dict(queues)), shape, auto)
        carry_out(spec, dict(edits), shape, dict(queues))
    except EditRefused as problem:
        return str(problem)
    except commands.UNEXPECTED:
        return "its jobspec has a form that Berth does not know"
    if spec["resources"] != job.current.get("resources"):
        return "it would need other resources; cancel it and submit it again"
    own_properties = _properties(job.original)
    added = _properties(job.current) - own_properties - set(requires.get(job.queue, ()))
    if "features" in edits or added:
        return "it would need other properties; cancel it and submit it again"
    return None


def _properties(spec: Mapping[str, Any]) -> set[str]:
    names = value_at(spec, "attributes", "system", "constraints", "properties")
    return {str(name) for name in names} if isinstance(names, list) else set()


def move(job_id: str, queue: str, *, duration_s: float | None = None) -> None:
    """Update a pending job's queue and duration. Raises SchedulerError with Flux's message where it
    refuses.
    """
    updates = [f"queue={queue}"]
    if duration_s is not None:
        updates.append(f"duration={duration_s:g}s")
    commands.run("update", job_id, *updates)


log = logging.getLogger("berth.replace")


def replace_pending(jobs: Sequence[str], site: Site, *, apply: bool) -> Iterator[Replacing]:
    """Yield the new decision for each of these pending jobs, or for all that Berth placed if
    ``jobs`` is empty.

    With ``apply`` a job whose best queue changed is moved. Raises BerthError.
    """
    config = commands.ask("state")["config.get"]
    auto = site.auto_queue or ""
    queues = queues_of(config, auto)
    home = {auto: ConfiguredQueue(config, auto)} if auto else {}
    tables = value_at(config, "queues") or {}
    requires = {name: value_at(table, "requires") or [] for name, table in tables.items()}
    for job in steps("pending jobs asked about", list(pending(jobs))):
        if job.placed_by is not None:
            yield _replaced(job, site, queues, home, requires, apply=apply)
        elif jobs:
            reason = "its queue was not chosen by Berth"
            yield Replacing(job.job_id, job.queue, None, False, None, reason)


def _replaced(
    job: Pending,
    site: Site,
    queues: Mapping[str, ConfiguredQueue],
    home: Mapping[str, ConfiguredQueue],
    requires: Mapping[str, Sequence[str]],
    *,
    apply: bool,
) -> Replacing:
    answer = _answer(job, site, queues)
    decision, edits = answer.get("decision"), answer.get("edits") or {}
    reason = str(answer.get("message") or answer.get("problem") or answer.get("code") or "")
    if answer.get("code") == Code.STAYS and home:
        queues, edits = home, {"queue": site.auto_queue}
        reason = "no queue is better than the one where it was submitted"

    def stays(why: str) -> Replacing:
        return Replacing(job.job_id, job.queue, None, False, decision, why)

    to = edits.get("queue")
    if to is None or to == job.queue:
        return stays(reason)
    problem = obstacle(job, edits, queues, requires, site.auto_queue or "")
    if problem is not None:
        return stays(f"{to} is better now, but {problem}")
    if not apply:
        return Replacing(job.job_id, job.queue, to, False, decision, reason)
    limit = edits.get("time_limit_min")
    try:
        move(job.job_id, to, duration_s=None if limit is None else 60.0 * limit)
    except BerthError as error:
        return stays(f"Flux refused to move it to {to}: {error.message}")
    log.info("%s moved from %s to %s, decision %s", job.job_id, job.queue, to, decision)
    return Replacing(job.job_id, job.queue, to, True, decision, reason)


def _answer(job: Pending, site: Site, queues: Mapping[str, ConfiguredQueue]) -> Mapping[str, Any]:
    details = as_asked(job, queues)
    if details is None:
        return {"problem": "its jobspec has a form that Berth does not know"}
    message = {"v": 1, "op": "decide", "scheduler": "flux", "job": details}
    return ask(site.daemon.socket, message)
