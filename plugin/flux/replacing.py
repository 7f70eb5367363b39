"""Asks the daemon again about pending jobs that Berth placed, and moves those it would not."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from berth.pilot.errors import BerthError
from berth.pilot.progress import steps
from berth.plugin.daemon.client import ask
from berth.plugin.flux import commands
from berth.plugin.flux.frobnicator import Queue, at, queues_of
from berth.plugin.flux.pending import Pending, as_asked, move, obstacle, pending
from berth.plugin.scheduler import Replacing
from berth.plugin.site.site import Site

log = logging.getLogger("berth.replace")


def replace_pending(jobs: Sequence[str], site: Site, *, apply: bool) -> Iterator[Replacing]:
    """One after another; all that Berth placed where no job is named. Raises BerthError."""
    config = commands.ask("state")["config.get"]
    auto = site.auto_queue or ""
    queues = queues_of(config, auto)
    tables = at(config, "queues") or {}
    requires = {name: at(table, "requires") or [] for name, table in tables.items()}
    for job in steps("pending jobs asked about", list(pending(jobs))):
        if job.placed_by is not None:
            yield _one(job, site, queues, requires, apply=apply)
        elif jobs:
            reason = "its queue was not chosen by Berth"
            yield Replacing(job.job_id, job.queue, None, False, None, reason)


def _one(
    job: Pending,
    site: Site,
    queues: Mapping[str, Queue],
    requires: Mapping[str, Sequence[str]],
    *,
    apply: bool,
) -> Replacing:
    answer = _answer(job, site, queues)
    decision, edits = answer.get("decision"), answer.get("edits") or {}
    reason = str(answer.get("message") or answer.get("problem") or answer.get("code") or "")

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


def _answer(job: Pending, site: Site, queues: Mapping[str, Queue]) -> Mapping[str, Any]:
    details = as_asked(job, queues)
    if details is None:
        return {"problem": "its jobspec has a form that Berth does not know"}
    message = {"v": 1, "op": "decide", "scheduler": "flux", "job": details}
    return ask(site.daemon.socket, message)
