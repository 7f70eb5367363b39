"""Present constraints: whether a suitable candidate can take the job now, from this user.

Like the lasting constraints (``policies.constraints``), each is a function that returns None or an
Exclusion with a sentence. They read one Moment: the user's rights and the candidate's newest state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.bounds import cores_on_node, holds, memory_on_node, over_bounds
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion
from berth.policies.gate import loss_of, move_of
from berth.policies.limits import Denied, Scope, broken
from berth.policies.resources import own_cores_per_node
from berth.policies.settings import PolicySettings
from berth.policies.values import Candidate, CandidateState, Request, Resources


@dataclass(slots=True)
class Moment:
    """One request on one candidate at the present time: all that a present constraint may read."""

    request: Request
    candidate: Candidate
    settings: PolicySettings
    resources: Resources
    state: CandidateState | None
    now_s: float
    time_limit_s: float | None
    """The time limit that the job would have on the candidate, including a raise by Berth or the
    queue's default; None: unknown."""
    run_ratio: float = 1.0
    """Predicted run time there divided by that of the job as written, at most 1; 1: not known."""


PresentConstraint = Callable[[Moment], Exclusion | None]


def allowed(moment: Moment) -> Exclusion | None:
    """Exclude a candidate whose queue the user, account or QOS may not use."""
    request, candidate = moment.request, moment.candidate
    if request.allowed_queues is not None and candidate.queue not in request.allowed_queues:
        # Schedulers omit closed queues from the allowed ones: give "down" as the reason.
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
    """Exclude a MIG slice candidate where no working node has such a slice at present."""
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
    """Exclude a queue that is down, and in strict mode one whose state is stale or unknown."""
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
    """Exclude a candidate where fewer nodes are usable than the job needs."""
    state = moment.state
    if state is None or state.usable_nodes is None or moment.resources.nodes <= state.usable_nodes:
        return None
    needed, there = moment.resources.nodes, state.usable_nodes or "none"
    plural = "s" * (needed != 1)
    return Exclusion(
        Code.TOO_FEW_RESOURCES, f"it needs {needed} node{plural}, and {there} can be used now"
    )


def not_ruled_out(moment: Moment) -> Exclusion | None:
    """Exclude a candidate that sent back a job of this user, until the entry is cleared, or where
    the user's program failed at once.

    Jobs of this workload from at least two users also exclude it; those of one other user do not,
    because the cause may be that user's own options.
    """
    if moment.state is None or not moment.state.ruled_out:
        return None
    request, there = moment.request, moment.state.ruled_out
    alike = [one for one in there if one.workload and one.workload == request.workload]
    found = [
        one for one in there
        if one.user == request.user and (not one.of_workload or one in alike)
    ]  # fmt: skip
    if len({one.user for one in alike}) > 1:
        found += alike
    if not found:
        return None
    one = found[0]
    said = one.reason if one.of_workload else f"was put back from here ({one.reason})"
    return Exclusion(Code.RULED_OUT, f"job {one.job} {said}")


def within_queue_bounds(moment: Moment) -> Exclusion | None:
    """Exclude a queue whose own limits the job would exceed."""
    if moment.state is None or moment.request.queue == moment.candidate.queue:
        return None
    problem = over_bounds(moment.request, moment.resources, moment.candidate, moment.state.bounds)
    if problem is None:
        return None
    return Exclusion(Code.QUEUE_LIMIT, f"{moment.candidate.queue} {problem}")


def within_account_limits(moment: Moment) -> Exclusion | None:
    """Exclude a queue where the job would exceed a limit of the user, account or QOS."""
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


def nodes_hold_it(moment: Moment) -> Exclusion | None:
    """Exclude a candidate where too few working nodes have the cores and memory of the job,
    whatever the site file says of its nodes.
    """
    state, request, held = moment.state, moment.request, moment.resources
    if state is None or state.node_sizes is None:
        return None
    cores = cores_on_node(request, held, moment.candidate, state.bounds)
    if request.needs.exclusive or state.bounds.exclusive:
        cores = own_cores_per_node(held)  # a whole node, whichever it is
    bounds, memory = state.bounds, 0  # by default all memory of the node, however much that is
    by_default = bounds.default_memory_bytes_per_core or bounds.default_memory_bytes_per_node
    if held.memory_bytes_per_node is not None or (by_default and not request.needs.all_memory):
        memory = memory_on_node(request, held, moment.candidate, bounds)
    needed = max(1, held.nodes)
    there = sum(n for cpus, size, n in state.node_sizes if cpus >= cores and size >= memory)
    if there >= needed:
        return None
    return Exclusion(
        Code.TOO_FEW_RESOURCES,
        f"it needs {needed} node{'s' * (needed != 1)} with {cores} cores and "
        f"{format_bytes(memory)}, and {there or 'none'} can be used now",
    )


def loses_nothing(moment: Moment) -> Exclusion | None:
    """Exclude a queue where the job would get less than in the queue where it was submitted."""
    move = move_of(
        moment.request, moment.candidate, moment.resources, moment.state, moment.run_ratio
    )
    return None if move is None else loss_of(move, moment.settings.gate)


PRESENT: tuple[PresentConstraint, ...] = (
    allowed,
    cut_now,
    fresh_and_up,
    enough_nodes_work,
    not_ruled_out,
    within_queue_bounds,
    within_account_limits,
    nodes_hold_it,
    loses_nothing,
)
"""The present constraints in checking order: the first exclusion gives the reason."""


def excluded_now(moment: Moment) -> Exclusion | None:
    """Return why the candidate cannot take the job now; None: the candidate can take it."""
    for constraint in PRESENT:
        excluded = constraint(moment)
        if excluded is not None:
            return excluded
    return None
