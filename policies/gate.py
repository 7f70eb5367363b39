"""The gate before every queue that Berth writes into a job: a move is never a loss.

``QueueTerms`` say what a job gets in one queue. The terms of the queue where the job was submitted
are compared with those at a place, field by field: each rule of ``RULES`` is one sentence of the
promise, and a site can loosen it with a key of ``[gate]``. Every way to a decision passes here
(``policies.present`` asks it of each place), and none has such checks of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from berth.pilot.units import format_bytes, format_seconds
from berth.policies.bounds import billing, limits_there_s
from berth.policies.codes import Code
from berth.policies.constraints import Exclusion, gres_type, names_no_type
from berth.policies.resources import held_where_it_was
from berth.policies.settings import GateSettings
from berth.policies.values import (
    UNBOUNDED,
    Candidate,
    CandidateState,
    DefaultMemory,
    OwnQueue,
    QueueBounds,
    Request,
    Resources,
)

_ROUNDING = 1 + 1e-9


class QueueTerms(NamedTuple):
    """What a job gets in one queue."""

    time_limit_s: float
    """Infinity: no limit."""
    memory_bytes_per_node: float
    """Infinity: all memory of a node, or as much as the job takes."""
    gpus: int
    billed: tuple[float, float]
    """What an hour is billed, as ``bounds.billing`` says."""
    cpus_per_core: int
    """Hardware threads of a core that count as cores."""
    rules: QueueBounds
    """What the queue does to each of its jobs."""


class Move(NamedTuple):
    """A job that would change its queue: its terms before and after."""

    request: Request
    own: QueueTerms
    there: QueueTerms
    queue: str
    run_ratio: float
    """Predicted run time there divided by that of the job as written, at most 1; 1: not known."""

    @property
    def bill_ratio(self) -> float:
        """Return what the whole job is billed there, divided by what it is billed as written."""
        pairs = zip(self.there.billed, self.own.billed, strict=True)
        rates = (there / own if own else math.inf if there else 1.0 for there, own in pairs)
        return max(rates) * self.run_ratio


def move_of(
    request: Request,
    candidate: Candidate,
    held: Resources,
    state: CandidateState | None,
    run_ratio: float = 1.0,
) -> Move | None:
    """Return the move of a job to a candidate with the resources ``held``.

    None: nothing is compared, because the job stays in its queue or its own queue is not known.
    """
    own = request.own
    if own is None or own.bounds is None or candidate.queue in (request.queue, own.name):
        return None
    bounds = UNBOUNDED if state is None else state.bounds
    before = _terms_as_written(request, candidate, own, own.bounds)
    by_default, longest = limits_there_s(candidate, bounds)
    if math.isinf(before.time_limit_s):  # no limit cannot be written into a job
        longest = min(longest, by_default)
    default = None if state is None else state.default_memory
    after = QueueTerms(
        min(before.time_limit_s, longest),  # a shorter default there is replaced by the job's own
        _memory_there(request, held, default),
        held.gpus,
        billing(request, _with_gpu_memory(request, held, default), candidate, bounds),
        bounds.cpus_per_core,
        bounds,
    )
    return Move(request, before, after, candidate.queue, run_ratio)


def _terms_as_written(
    request: Request, candidate: Candidate, own: OwnQueue, bounds: QueueBounds
) -> QueueTerms:
    asked = request.resources
    node_bytes = None if own.default_memory is None else own.default_memory.node_bytes
    gres = candidate.gres  # GPUs of any type are billed as those of the candidate
    if request.gres is not None and not names_no_type(request.gres):
        gres = gres_type(request.gres)
    place = Candidate(
        "", "", own.name, gres=gres,
        cores_per_node=own.cores_per_node, memory_bytes_per_node=node_bytes,
    )  # fmt: skip
    held = replace(asked, nodes=max(1, asked.nodes))
    held = _with_gpu_memory(request, held, own.default_memory)
    memory = held_where_it_was(request)
    return QueueTerms(
        request.time_limit_s or own.limit_s or math.inf,
        math.inf if memory is None else memory,
        asked.gpus,
        billing(request, held, place, bounds),
        bounds.cpus_per_core if asked.gpus else own.cpus_per_core,
        bounds,
    )


def _memory_there(request: Request, held: Resources, default: DefaultMemory | None) -> float:
    if held.memory_bytes_per_node is not None or default is None:
        return math.inf  # written into the job (``policies.resources``), or not limited there
    memory = held_where_it_was(replace(request, own=OwnQueue(default_memory=default)))
    return math.inf if memory is None else memory


def _with_gpu_memory(request: Request, held: Resources, default: DefaultMemory | None) -> Resources:
    """Return the resources with the default memory of the job's GPUs, which ``billing`` does not
    know."""
    if default is None or default.bytes_per_gpu is None or not request.resources.gpus:
        return held
    memory = _memory_there(request, held, default)
    return held if math.isinf(memory) else replace(held, memory_bytes_per_node=int(memory))


def loss_of(move: Move, gate: GateSettings) -> Exclusion | None:
    """Return what the job would lose by the move, by the first rule that it breaks; None: it loses
    nothing."""
    for rule in RULES:
        loss = rule(move, gate)
        if loss is not None:
            return loss
    return None


def _time(move: Move, gate: GateSettings) -> Exclusion | None:
    """Never less time than the job asked for, or than it gets by default where it was submitted."""
    own_s, there_s = move.own.time_limit_s, move.there.time_limit_s
    if Code.LESS_TIME in gate.allow or there_s >= own_s:
        return None
    before = "no time limit" if math.isinf(own_s) else format_seconds(own_s)
    return Exclusion(
        Code.LESS_TIME,
        f"the job has {before} where it was submitted; {move.queue} allows "
        f"{format_seconds(there_s)}",
    )


def _interruption(move: Move, gate: GateSettings) -> Exclusion | None:
    """Interrupted by other jobs no more easily; never a job that must not start again."""
    own, there = move.own.rules, move.there.rules
    if there.preemptible is None:
        return None
    as_safe = there.priority_tier >= own.priority_tier and there.interruption <= own.interruption
    if own.preemptible is not None and as_safe:
        return None
    if Code.PREEMPTIBLE in gate.allow and not move.request.needs.never_requeue:
        return None
    return Exclusion(Code.PREEMPTIBLE, there.preemptible)


def _priority(move: Move, gate: GateSettings) -> Exclusion | None:
    """Never behind the jobs of the queue where it was submitted."""
    own, there = move.own.rules, move.there.rules
    is_lower = there.priority_tier < own.priority_tier or (
        there.priority_factor < own.priority_factor
    )
    if Code.LOWER_PRIORITY in gate.allow or not is_lower:
        return None
    return Exclusion(
        Code.LOWER_PRIORITY, "its jobs have a lower priority than those of the job's own queue"
    )


def _sharing(move: Move, gate: GateSettings) -> Exclusion | None:
    """No core shared with other jobs where the job's own queue shares none."""
    rules = move.own.rules, move.there.rules
    own, there = (each.jobs_per_core for each in rules)
    shares = there > max(1, own) or (move.request.needs.exclusive and there > 0 and own == 0)
    shares = shares or (rules[0].by_user and not (rules[1].by_user or rules[1].exclusive))
    if Code.SHARED_CORES in gate.allow or not shares:
        return None
    return Exclusion(Code.SHARED_CORES, "its jobs share nodes or cores, whatever they ask for")


def _nodes(move: Move, gate: GateSettings) -> Exclusion | None:
    """Whole nodes where the job had or asked for them, and only there."""
    own, there = move.own.rules.exclusive, move.there.rules.exclusive
    if own == there or move.request.needs.exclusive:
        return None
    if own:
        return Exclusion(
            Code.PART_OF_NODE, "it gives parts of nodes, and the job's own queue gives whole ones"
        )
    if Code.WHOLE_NODES in gate.allow:
        return None
    return Exclusion(
        Code.WHOLE_NODES, "it gives, and bills, whole nodes, which the job did not ask for"
    )


def _cores(move: Move, gate: GateSettings) -> Exclusion | None:
    """As many physical cores: threads of a core do not count as cores where they did not."""
    own, there = move.own.rules, move.there.rules
    needs, asked = move.request.needs, move.request.resources
    if (
        move.there.cpus_per_core > move.own.cpus_per_core
        and Code.HARDWARE_THREADS not in gate.allow
    ):
        return Exclusion(
            Code.HARDWARE_THREADS,
            "it counts hardware threads as cores: the job would get fewer cores",
        )
    names_cores = needs.cores_per_gpu or asked.cpus_per_task > 1
    before, after = own.default_cores_per_gpu, max(1, there.default_cores_per_gpu)
    if asked.gpus and not names_cores and before > after:
        return Exclusion(
            Code.QUEUE_LIMIT,
            f"it gives {after} cores with a GPU, and the job's own queue {before}",
        )
    return None


def _memory(move: Move, gate: GateSettings) -> Exclusion | None:
    """Never less memory by default."""
    own, there = move.own.memory_bytes_per_node, move.there.memory_bytes_per_node
    if Code.LESS_MEMORY in gate.allow or there >= own or math.isinf(own):
        return None
    return Exclusion(
        Code.LESS_MEMORY,
        f"jobs without a memory request get {format_bytes(there)} a node here and "
        f"{format_bytes(own)} where this one was submitted",
    )


def _gpus(move: Move, gate: GateSettings) -> Exclusion | None:
    """GPUs that the job did not ask for only where the site allows them."""
    if gate.added_gpus or move.there.gpus <= move.own.gpus:
        return None
    return Exclusion(Code.ADDED_GPUS, "the site adds no GPUs to jobs that ask for none")


def _bill(move: Move, gate: GateSettings) -> Exclusion | None:
    """Never a higher bill than as written."""
    own, ratio = move.request.own, move.bill_ratio
    if own is not None and not own.may_start:
        return None  # the job starts nowhere as written
    if ratio <= gate.bill_factor * _ROUNDING:
        return None
    return Exclusion(
        Code.BILLS_MORE, f"the job would be billed {ratio:.2g} times as much as it is as written"
    )


Rule = Callable[[Move, GateSettings], Exclusion | None]
RULES: tuple[Rule, ...] = (
    _time, _interruption, _priority, _sharing, _nodes, _cores, _memory, _gpus, _bill,
)  # fmt: skip
"""The rules in checking order: the first loss gives the reason."""
