"""Computes the candidates' present states from the scheduler's queues and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from berth.plugin.scheduler.facts import ClusterFacts, NodeFacts
from berth.plugin.scheduler.protocol import Scheduler
from berth.policies.values import Candidate, CandidateState, OwnQueue, QueueBounds


@dataclass(frozen=True, slots=True)
class StatesReading:
    """The candidates' states and what each queue gives its jobs at one moment: the input of a
    decision.
    """

    states: Mapping[str, CandidateState]
    """Present states of the candidates, by name."""
    own_queues: Mapping[str | None, OwnQueue] = field(default_factory=lambda: MappingProxyType({}))
    """What a job gets that is left in the queue where it was submitted (None: no queue named)."""


ReadStates = Callable[[], StatesReading]
"""A function that reads the candidates' states. Raises SchedulerError or ToolMissing."""


def state_reader(scheduler: Scheduler, candidates: Iterable[Candidate]) -> ReadStates:
    """Return the function that reads the candidates' states; the daemon calls it every few
    seconds.
    """
    wanted = tuple(candidates)

    def read() -> StatesReading:
        facts = scheduler.read(full=False)
        return StatesReading(states_of(facts, wanted), own_queues_of(facts, wanted))

    return read


def own_queues_of(
    facts: ClusterFacts, candidates: Iterable[Candidate]
) -> Mapping[str | None, OwnQueue]:
    """Return what jobs get that are left in each queue; key None: the default queue."""
    places: dict[str, list[str]] = {}
    known: set[str] = set()
    for candidate in candidates:
        working = [node for node in nodes_of(candidate, facts) if node.usable]
        known.update(node.name for node in working)
        for name in sorted({queue for node in working for queue in node.queues}):
            places.setdefault(name, []).append(candidate.name)
    nodes: dict[str, list[NodeFacts]] = {}
    for node in facts.nodes:
        for name in node.queues:
            nodes.setdefault(name, []).append(node)
    own_queues: dict[str | None, OwnQueue] = {}
    for queue in facts.queues.values():
        own_queues[queue.name] = own = OwnQueue(
            name=queue.name,
            bounds=queue.bounds,
            default_memory=queue.default_memory,
            limit_s=queue.default_time_s or queue.max_time_s,
            cores_per_node=max((n.cores for n in nodes.get(queue.name, ())), default=1),
            cpus_per_core=min((n.cpus_per_core for n in nodes.get(queue.name, ())), default=1),
            places=tuple(places.get(queue.name, ())) if known or not queue.up else None,
            has_others=queue.up
            and any(n.usable and n.name not in known for n in nodes.get(queue.name, ())),
            pending_jobs=queue.pending_jobs,
        )
        if queue.is_default:
            own_queues[None] = own
    return MappingProxyType(own_queues)


def states_of(facts: ClusterFacts, candidates: Iterable[Candidate]) -> Mapping[str, CandidateState]:
    """Return a read-only map of each candidate's state; a candidate without its queue is down."""
    by_queue: dict[str, list[NodeFacts]] = {}
    for node in facts.nodes:
        for queue in node.queues:
            by_queue.setdefault(queue, []).append(node)
    return MappingProxyType({c.name: _state(c, facts, by_queue) for c in candidates})


def nodes_of(candidate: Candidate, facts: ClusterFacts) -> tuple[NodeFacts, ...]:
    """Return all nodes of a candidate, including nodes that are down or drained."""
    return tuple(n for n in facts.nodes if candidate.queue in n.queues and _is_of(candidate, n))


def room_of(candidate: Candidate, nodes: Iterable[NodeFacts]) -> tuple[int, int, int, int]:
    """Return (cores, GPUs, idle cores, idle GPUs) of the candidate on these nodes."""
    cores = gpus = idle_cores = idle_gpus = 0
    for node in nodes:
        cores, idle_cores = cores + node.cores, idle_cores + node.idle_cores
        gpus += _count(node.gpus, candidate.gres)
        idle_gpus += _count(node.idle_gpus, candidate.gres)
    return cores, gpus, idle_cores, idle_gpus


def _state(
    candidate: Candidate, facts: ClusterFacts, by_queue: Mapping[str, list[NodeFacts]]
) -> CandidateState:
    queue = facts.queues.get(candidate.queue)
    in_queue = by_queue.get(candidate.queue, ())
    working = [n for n in in_queue if n.usable]
    nodes = [n for n in working if _is_of(candidate, n)]
    _, _, idle_cores, idle_gpus = room_of(candidate, nodes)
    return CandidateState(
        up=queue is not None and queue.up,
        idle_cores=idle_cores,
        idle_gpus=idle_gpus,
        pending_jobs=0 if queue is None else queue.pending_jobs,
        as_of_s=facts.as_of_s,
        usable_nodes=len(nodes),
        bounds=QueueBounds() if queue is None else queue.bounds,
        rights=facts.rights,
        closed=None if queue is None else queue.closed,
        gpu_types=tuple(sorted({kind for n in working for kind in n.gpus})),
        default_memory=None if queue is None else queue.default_memory,
        node_sizes=_sizes(nodes),
        refuses_lists=facts.refuses_lists,
        all_node_sizes=_sizes(n for n in in_queue if _is_of(candidate, n)),
    )


def _sizes(nodes: Iterable[NodeFacts]) -> tuple[tuple[int, int, int], ...]:
    """Return (CPUs, memory in bytes, number of nodes) for each size of node."""
    sizes = Counter((node.cores * node.cpus_per_core, node.memory_bytes) for node in nodes)
    return tuple((cpus, size, count) for (cpus, size), count in sorted(sizes.items()))


def _is_of(candidate: Candidate, node: NodeFacts) -> bool:
    gres = (candidate.gres or "gpu") if candidate.is_gpu else None
    return selects(node, candidate.constraint, gres)


def selects(node: NodeFacts, constraint: str | None, gres: str | None) -> bool:
    """Return whether a job that requests these features and that GPU type may run on the node.

    A job that requests no GPU (``gres`` None) may run on a node with GPUs.
    """
    if gres is not None and _count(node.gpus, gres) == 0:
        return False
    return constraint is None or all(name in node.features for name in constraint.split("&"))


def _count(gpus: Mapping[str, int], gres: str | None) -> int:
    """Return the number of GPUs of type ``gres``; ``gpu`` or None: of all types."""
    return sum(
        count
        for name, count in gpus.items()
        if gres is None or name == gres or name.startswith(f"{gres}:")
    )
