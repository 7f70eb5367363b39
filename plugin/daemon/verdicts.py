"""Makes the verdict on one submission (what is done, and why) and the message for its user.

A job stays in the queue that its user chose; at most its ``--gres`` gets the type of a MIG slice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from berth.plugin.daemon import protocol, requests
from berth.plugin.daemon.fitting import SmallerRequest
from berth.plugin.daemon.protocol import Ask, SubmittedJob
from berth.plugin.daemon.recognised import PastJobKeys
from berth.plugin.daemon.shelf import Shelf
from berth.plugin.daemon.view import Kept, SiteView, Snapshot
from berth.plugin.site.candidates import is_padding
from berth.plugin.site.document import Show
from berth.plugin.site.programs import manager_that_asks_by_queue
from berth.plugin.store.records import CHANGED
from berth.plugin.workloads.names import may_use
from berth.policies.codes import Code
from berth.policies.constraints import names_no_type
from berth.policies.settings import Control
from berth.policies.values import CandidateState, Decision, Mode, Request

_TYPES_NAMED = 8


def in_own_queue(
    request: Request,
    queue: str,
    *,
    site: SiteView,
    shelf: Shelf,
    snapshot: Snapshot,
    now_s: float,
) -> Kept | Decision:
    """Return why the job is left unchanged, or the Decision that adds a slice's type to
    its gres.
    """
    if site.auto_queue is not None and site.auto_queue in queue.split(","):
        return Kept(
            Code.OWN_QUEUE,
            f"-p {queue} names partitions beside {site.auto_queue}: Berth chooses only for "
            f"-p {site.auto_queue} alone.",
        )
    names = site.slice_queues.get(queue)
    if not names or request.gres is None or not names_no_type(request.gres):
        return Kept(Code.OWN_QUEUE, f"You chose {queue} yourself.")
    name = request.workload
    forecast = None if name is None else shelf.forecast(name, request.user)
    if forecast is not None:
        decision = site.decider.decide(request, snapshot.states, forecast, now_s)
        if decision.chosen in names and protocol.edits(request, decision).keys() == {"gres"}:
            return decision
    states = (snapshot.states.get(name) for name in names)
    return untyped_gpu(request.gres, queue, next((s for s in states if s is not None), None))


def untyped_gpu(gres: str, queue: str, state: CandidateState | None) -> Kept:
    """Return the message for a user whose ``--gres=gpu:1`` may get a MIG slice of any size."""
    types = () if state is None else tuple(t for t in state.gpu_types if ":" in t)
    named = [t for t in types if not is_padding(t)]
    may_get = "a slice of any size"
    if len(named) < len(types):
        may_get += ", or a part of a GPU that is switched off"
    hint = f": {', '.join(f'--gres={t}:1' for t in named[:_TYPES_NAMED])}" if named else ""
    return Kept(
        Code.UNTYPED_GPU,
        f"{gres} names no type; in {queue} it may get {may_get}. Name one{hint}.",
    )


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


class Arm(NamedTuple):
    """One arm of the experiment that ``berth jobs gain`` reads, and how it was drawn."""

    name: str
    control: Control
    share: float


class Submission(NamedTuple):
    """One submission, and the tables that answer it."""

    line: bytes
    ask: Ask
    mode: Mode
    site: SiteView
    shelf: Shelf
    snapshot: Snapshot
    past: PastJobKeys
    started_ns: int


@dataclass(slots=True)
class SubmitVerdict:
    """The action for one job, with its reason."""

    code: str
    reason: str
    decision: Decision | None = None
    changes: protocol.Edits = field(default_factory=dict)
    memory: SmallerRequest | None = None
    """The memory check's message or change; None where the check has nothing to report."""
    slice_key: str = ""
    """The key of the job and similar jobs, where it gets a slice by what past runs used."""
    arm: Arm | None = None
    """The arm of the experiment that was drawn for the job; None: it takes part in none."""

    @property
    def is_control(self) -> bool:
        """Return whether the job serves to compare others with."""
        return self.arm is not None and self.arm.name != CHANGED

    @property
    def is_made(self) -> bool:
        """Return whether the changes are to be made; of control jobs left as written they are
        recorded only."""
        return self.arm is None or self.arm.name != Control.WRITTEN.value


def kept_at_once(question: Submission, named: requests.NamedWorkload) -> Kept | None:
    """Return why the job is left unchanged whatever its workload is; None: no such reason."""
    job = question.ask.job
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
    return _not_covered(job, question.site)


def _not_covered(job: SubmittedJob, site: SiteView) -> Kept | None:
    """Return that the site leaves such jobs out, or that the job must stay in the queue where its
    workflow manager looks for it; None: neither."""
    left_out = site.coverage.why_not(
        user=job.user or "",
        account=requests.account(job),
        queue=job.queue or None,
        asked=bool(job.queue) and job.queue == site.auto_queue,
        interactive=job.kind == "interactive",
        array=bool(job.array),
        het=job.het is not None,
    )
    if left_out is not None:
        return Kept(left_out[0].value, left_out[1])
    if not job.queue or job.queue != site.auto_queue:
        return None
    manager = manager_that_asks_by_queue(job.name or "", job.script or "")
    if manager is None:
        return None
    return Kept(
        Code.COUNTED_BY_QUEUE,
        f"{manager} looks for its jobs in the partition that it named, {job.queue}: name none.",
    )


def no_forecast(workload: str, *, is_known: bool) -> SubmitVerdict:
    if is_known:
        return SubmitVerdict(
            Code.NO_FORECAST,
            f"Nothing is predicted yet of {workload}: berth workload refresh {workload}.",
        )
    return SubmitVerdict(Code.NO_WORKLOAD, f"There is no workload named {workload} in the store.")


def verdict_of(job: SubmittedJob, request: Request, decision: Decision) -> SubmitVerdict:
    """Return the verdict for a decision; without edits where they would alter a fixed job shape."""
    changes = protocol.edits(request, decision)
    verdict = SubmitVerdict(decision.code, decision.reason, decision, changes)
    if job.kind == "interactive":
        if request.resources.nodes == 0 and changes.get("nodes") == 1:
            del changes["nodes"]  # every node has the requested GPUs
        asked_memory = request.needs.memory_form is not None
        if not (_SHAPE if asked_memory else _LAYOUT).isdisjoint(changes):
            verdict.code, verdict.reason, verdict.changes = *_INTERACTIVE_SHAPE, {}
    if "shape" in request.pinned and not _SHAPE.isdisjoint(verdict.changes):
        verdict.code, verdict.reason, verdict.changes = *_PINNED_SHAPE, {}
    return verdict


def as_control(verdict: SubmitVerdict, arm: Arm, as_list: SubmitVerdict | None) -> SubmitVerdict:
    """Return the verdict for a job that was drawn to be compared with.

    ``as_list``: the verdict on it as a job of an unknown program; without changes or None, the job
    is left as written.
    """
    treatment = "is left as written"
    if as_list is not None and as_list.changes:
        treatment = "gets the plain list of partitions"
    else:
        as_list, arm = verdict, arm._replace(name=Control.WRITTEN.value)
    reason = (
        f"This job {treatment}: {100 * arm.share:.3g} % of the jobs that Berth would change, drawn "
        f"at random, show what its choices are worth. Otherwise: {verdict.reason}"
    )
    return replace(as_list, code=Code.CONTROL, reason=reason, arm=arm)


def message_to_user(question: Submission, request: Request, verdict: SubmitVerdict) -> str | None:
    """Return the message that the site's ``show`` setting allows for the user; None: no message."""
    site, mode = question.site, question.mode
    is_silent = site.show is Show.NONE or (verdict.is_control and site.show is not Show.ALL)
    if is_silent or mode not in TELLS_USERS:
        return None
    if verdict.changes and mode is Mode.ENFORCE:
        opt_out = site.schedulers[question.ask.scheduler].opt_out
        return protocol.message(verdict.reason, opt_out=opt_out)
    if verdict.changes:
        return protocol.message(f"Berth would choose: {verdict.reason}")
    if site.show is not Show.ALL:
        return None
    asked = request.wants_placement or request.workload or verdict.code == Code.UNTYPED_GPU
    if asked and verdict.code not in _NOT_AT_SUBMISSION:
        return protocol.message(verdict.reason)
    return None if verdict.memory is None else protocol.message(verdict.memory.sentence)
