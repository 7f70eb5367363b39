"""Present constraints: whether a candidate that suits the job can take it now, from who asks.

Like the lasting ones (``policies.constraints``) each is a small function with its own sentence;
they look at one Moment: the submitter's rights, and the candidate's state by the newest reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from berth.pilot.units import format_seconds
from berth.policies.bounds import holds, over_bounds
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion
from berth.policies.limits import Denied, Scope, broken
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Request, Resources


@dataclass(slots=True)
class Moment:
    """One request on one candidate now: all that a present constraint may look at."""

    request: Request
    candidate: Candidate
    settings: PolicySettings
    resources: Resources
    state: CandidateState | None
    now_s: float
    time_limit_s: float | None
    """What the job would have there, the site file's or the edit's; None: not known."""


PresentConstraint = Callable[[Moment], Exclusion | None]


def allowed(moment: Moment) -> Exclusion | None:
    """Never more than the submitter may use: queue, user, account, QOS."""
    request, candidate = moment.request, moment.candidate
    if request.allowed_queues is not None and candidate.queue not in request.allowed_queues:
        # Schedulers leave closed queues out of those that a user may use: that is the reason then.
        if moment.state is not None and not moment.state.up:
            return _down(candidate, moment.state)
        return Exclusion(Code.QUEUE_NOT_ALLOWED, f"you may not use {candidate.queue}")
    if candidate.allowed_users is not None and request.user not in candidate.allowed_users:
        return Exclusion(Code.USER_NOT_ALLOWED, "the site file does not list you here")
    if candidate.allowed_accounts is not None and request.account not in candidate.allowed_accounts:
        return Exclusion(
            Code.ACCOUNT_NOT_ALLOWED, f"account {request.account or '(none)'} is not listed here"
        )
    if (
        request.qos is not None
        and candidate.allowed_qos is not None
        and request.qos not in candidate.allowed_qos
    ):
        return Exclusion(Code.QOS_NOT_ALLOWED, f"QOS {request.qos} is not allowed here")
    return None


def cut_now(moment: Moment) -> Exclusion | None:
    """Slices are only asked for that a working node has, by a reading of the present layouts."""
    candidate, state, settings = moment.candidate, moment.state, moment.settings
    if candidate.slice_of is None or state is None:
        return None
    since_s = moment.request.scheduler_since_s
    if settings.strict and since_s is not None and state.as_of_s < since_s:
        return Exclusion(
            Code.STALE_STATE, "the scheduler was started anew after its slices were read"
        )
    if state.up and state.usable_nodes == 0:
        what = (candidate.gres or "").partition(":")[2] or candidate.platform
        return Exclusion(
            Code.NOT_CUT, f"no working node of {candidate.queue} has a {what} slice at present"
        )
    return None


def fresh_and_up(moment: Moment) -> Exclusion | None:
    """The candidate is up, by a reading that is not stale (an unknown state only when strict)."""
    state, settings = moment.state, moment.settings
    if state is None or moment.now_s - state.as_of_s > settings.stale_after_s:
        if not settings.strict:
            return None
        if state is None:
            return Exclusion(Code.STALE_STATE, "its present state is not known")
        age = format_seconds(moment.now_s - state.as_of_s)
        return Exclusion(Code.STALE_STATE, f"its state was last read {age} ago")
    if not state.up or state.usable_nodes == 0:
        return _down(moment.candidate, state)
    return None


def _down(candidate: Candidate, state: CandidateState) -> Exclusion:
    if state.up:
        return Exclusion(Code.DOWN, f"{candidate.queue} has no working node")
    return Exclusion(Code.DOWN, f"{candidate.queue} is {state.closed or 'not up'}")


def enough_nodes_work(moment: Moment) -> Exclusion | None:
    """As many nodes as it needs are neither down nor drained."""
    state = moment.state
    if state is None or state.usable_nodes is None or moment.resources.nodes <= state.usable_nodes:
        return None
    needed, there = moment.resources.nodes, state.usable_nodes or "none"
    plural = "s" * (needed != 1)
    return Exclusion(
        Code.TOO_FEW_RESOURCES, f"it needs {needed} node{plural}, and {there} can be used now"
    )


def not_ruled_out(moment: Moment) -> Exclusion | None:
    """No job of this user was put back from here and not looked at since.

    Nor jobs of this workload by two other users: one alone may be the doing of that user.
    """
    if moment.state is None or not moment.state.ruled_out:
        return None
    request, there = moment.request, moment.state.ruled_out
    found = [one for one in there if one.user == request.user]
    alike = [one for one in there if one.workload and one.workload == request.workload]
    if len({one.user for one in alike}) > 1:
        found += alike
    if not found:
        return None
    one = found[0]
    return Exclusion(Code.RULED_OUT, f"job {one.job} was put back from here ({one.reason})")


def within_queue_bounds(moment: Moment) -> Exclusion | None:
    """The scheduler would take the job in that queue: it is over none of the queue's limits."""
    if moment.state is None or moment.request.queue == moment.candidate.queue:
        return None
    problem = over_bounds(moment.request, moment.resources, moment.candidate, moment.state.bounds)
    if problem is None:
        return None
    return Exclusion(Code.QUEUE_LIMIT, f"{moment.candidate.queue} {problem}")


def within_account_limits(moment: Moment) -> Exclusion | None:
    """The submitter may hold there what the job would hold."""
    state, request, candidate = moment.state, moment.request, moment.candidate
    if state is None or state.rights is None or request.queue == candidate.queue:
        return None
    found = state.rights.limits(request.user, request.account, request.qos, candidate.queue)
    if isinstance(found, Denied):
        return Exclusion(Code.NOT_ASSOCIATED, found.sentence)
    if not found:
        return None
    nodes = max(1, moment.resources.nodes)
    held = holds(request, moment.resources, candidate, state.bounds)
    limit = broken(found, held, nodes, moment.time_limit_s)
    if limit is None:
        return None
    if limit.scope is Scope.TIME:
        return Exclusion(
            Code.ACCOUNT_LIMIT, f"{limit.source} allows {format_seconds(limit.amount)} a job"
        )
    if limit.scope is Scope.LEAST:
        what = f"demands {limit.amount:g} {limit.resource}"
    else:
        what = f"allows {limit.amount:g} {limit.resource} ({limit.scope.value})"
    return Exclusion(Code.ACCOUNT_LIMIT, f"{limit.source} {what}")


PRESENT: tuple[PresentConstraint, ...] = (
    allowed,
    cut_now,
    fresh_and_up,
    enough_nodes_work,
    not_ruled_out,
    within_queue_bounds,
    within_account_limits,
)
"""In the order in which they are asked: the first that excludes gives the reason."""


def excluded_now(moment: Moment) -> Exclusion | None:
    """Return why the candidate cannot take the job now, or None."""
    for constraint in PRESENT:
        excluded = constraint(moment)
        if excluded is not None:
            return excluded
    return None
