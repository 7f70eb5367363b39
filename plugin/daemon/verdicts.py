"""Makes the verdict on one submission (what is done, and why) and the message for its user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from berth.plugin.daemon import replies, requests
from berth.plugin.daemon.fitting import Fit
from berth.plugin.daemon.matched import PastJobKeys
from berth.plugin.daemon.messages import Ask, Job
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Kept, SiteView, Snapshot
from berth.plugin.site.document import Show
from berth.plugin.site.programs import manager_that_asks_by_queue
from berth.plugin.workloads.names import may_use
from berth.policies.codes import Code
from berth.policies.values import Decision, Mode, Request

TELLS_USERS = (Mode.ADVISE, Mode.ENFORCE)
"""Modes in which users get messages."""
_NOT_AT_SUBMISSION = frozenset((Code.OPTED_OUT, Code.NO_WORKLOAD, Code.NO_FORECAST))
"""Codes that only `berth why` reports: users whose programs Berth does not know need no message at
submission.
"""
_INTERACTIVE_SHAPE = Kept(
    Code.INTERACTIVE_SHAPE,
    "srun and salloc keep the tasks, cores and memory that you gave them.",
)
_PINNED_SHAPE = Kept(
    Code.PINNED_SHAPE,
    "You asked for whole nodes, or in a form that Berth cannot write anew.",
)
MEMORY_EDITS = frozenset(("memory_mib_per_node", "memory_mib_per_cpu"))
_LAYOUT = frozenset(("nodes", "tasks", "cpus_per_task"))
_SHAPE = _LAYOUT | MEMORY_EDITS


class Question(NamedTuple):
    """One submission, and the tables that answer it."""

    line: bytes
    ask: Ask
    mode: Mode
    site: SiteView
    shelf: Shelf
    snapshot: Snapshot
    past: PastJobKeys
    started_ns: int

    @property
    def job(self) -> Job:
        return self.ask.job


@dataclass(slots=True)
class Verdict:
    """The action for one job, with its reason."""

    code: str
    reason: str
    decision: Decision | None = None
    changes: replies.Edits = field(default_factory=dict)
    memory: Fit | None = None
    """The memory check's message or change; None where the check has nothing to report."""
    slice_key: str = ""
    """The key of the job and similar jobs, where it gets a slice by what past runs used."""
    is_control: bool = False
    """True: the changes are recorded and not made, to compare other jobs with this one."""


def kept_at_once(question: Question, named: requests.Choice) -> Kept | None:
    """Return why the job is left unchanged whatever its workload is; None: no such reason."""
    job = question.job
    if named.opted_out:
        return Kept(Code.OPTED_OUT, "You asked Berth to leave this job alone.")
    if question.mode is Mode.OFF:
        return Kept(Code.BAD_MODE, "BERTH_MODE is not off, shadow, advise or enforce.")
    if named.problem is not None:
        return Kept(named.code, named.problem)
    if job.user is None and job.uid is not None:
        return Kept(Code.NOT_COVERED_USER, f"The name of user {job.uid} is not known yet.")
    if named.workload is not None and not may_use(job.user or "", named.workload):
        return Kept(Code.NO_WORKLOAD, f"{named.workload} is another user's workload.")
    return question.site.covers(job) or _counted_by_queue(job, question.site)


def _counted_by_queue(job: Job, site: SiteView) -> Kept | None:
    """Return that the job must stay in the queue that its workflow manager named; None: it need
    not.
    """
    if not job.queue or job.queue != site.auto_queue:
        return None
    manager = manager_that_asks_by_queue(job.name or "", job.script or "")
    if manager is None:
        return None
    return Kept(
        Code.COUNTED_BY_QUEUE,
        f"{manager} looks for its jobs in the partition that it named, {job.queue}: name none.",
    )


def no_forecast(workload: str, *, is_known: bool) -> Verdict:
    if is_known:
        return Verdict(
            Code.NO_FORECAST,
            f"Nothing is predicted yet of {workload}: berth workload refresh {workload}.",
        )
    return Verdict(Code.NO_WORKLOAD, f"There is no workload named {workload} in the store.")


def verdict_of(job: Job, request: Request, decision: Decision) -> Verdict:
    """Return the verdict for a decision; without edits where they would alter a fixed job shape."""
    changes = replies.edits(request, decision)
    verdict = Verdict(decision.code, decision.reason, decision, changes)
    if job.kind == "interactive":
        if request.resources.nodes == 0 and changes.get("nodes") == 1:
            del changes["nodes"]  # every node has the requested GPUs
        asked_memory = request.needs.memory_form is not None
        if not (_SHAPE if asked_memory else _LAYOUT).isdisjoint(changes):
            verdict.code, verdict.reason, verdict.changes = *_INTERACTIVE_SHAPE, {}
    if "shape" in request.pinned and not _SHAPE.isdisjoint(verdict.changes):
        verdict.code, verdict.reason, verdict.changes = *_PINNED_SHAPE, {}
    return verdict


def as_control(verdict: Verdict, share: float) -> Verdict:
    """Return the verdict for a job that was drawn to be left as written."""
    reason = (
        f"This job is left as written: {100 * share:.3g} % of the jobs that Berth would change, "
        f"drawn at random, show what its choices are worth. Otherwise: {verdict.reason}"
    )
    return replace(verdict, code=Code.CONTROL, reason=reason, is_control=True)


def message_to_user(question: Question, request: Request, verdict: Verdict) -> str | None:
    """Return the message that the site's ``show`` setting allows for the user; None: no message."""
    site, mode = question.site, question.mode
    is_silent = site.show is Show.NONE or (verdict.is_control and site.show is not Show.ALL)
    if is_silent or mode not in TELLS_USERS:
        return None
    if verdict.changes and mode is Mode.ENFORCE:
        opt_out = site.schedulers[question.ask.scheduler].opt_out
        return replies.message(verdict.reason, opt_out=opt_out)
    if verdict.changes:
        return replies.message(f"Berth would choose: {verdict.reason}")
    if site.show is not Show.ALL:
        return None
    asked = request.wants_placement or request.workload or verdict.code == Code.UNTYPED_GPU
    if asked and verdict.code not in _NOT_AT_SUBMISSION:
        return replies.message(verdict.reason)
    return None if verdict.memory is None else replies.message(verdict.memory.sentence)
