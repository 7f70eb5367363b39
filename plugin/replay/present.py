"""The cluster and its queue as a scheduler has them now, as a replay works with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.replay.traces import numbered
from berth.plugin.scheduler import ClusterFacts, NodeFacts, PresentJob
from berth.plugin.scheduler.states import nodes_of
from berth.policies.replay import Cluster, NodeKind, Partition, Trace
from berth.policies.replay.columns import Ints
from berth.policies.replay.live import Queue
from berth.policies.values import Candidate


@dataclass(frozen=True)
class PresentQueue:
    """What can be replayed of a reading of the scheduler."""

    queue: Queue
    cluster: Cluster
    jobs: tuple[PresentJob, ...]
    """As the queue's rows."""
    partition_of: Mapping[str, int]
    """By candidate's name: its own partition."""
    left_out: Mapping[str, int]
    """Jobs that are not replayed, by reason."""

    @property
    def waiting(self) -> tuple[PresentJob, ...]:
        """Those that wait, in order."""
        return self.jobs[self.queue.running :]


def present_queue(
    facts: ClusterFacts, jobs: Sequence[PresentJob], candidates: Sequence[Candidate] = ()
) -> PresentQueue:
    """Running jobs on their nodes, then those that wait, the highest priority first.

    A job that may start in several queues waits in the first. Raises UsageError where there is no
    node that works.
    """
    cluster, rows, partition_of = _cluster(facts, candidates)
    left_out: dict[str, int] = {}
    running: list[PresentJob] = []
    waiting: list[PresentJob] = []
    names = {part.name for part in cluster.partitions}
    for job in jobs:
        why = None
        if job.running and not all(name in rows for name in job.node_names):
            why = "run on nodes that take no others"
        elif job.running and (not job.node_names or job.start_s is None):
            why = "run on nodes that the scheduler does not name"
        elif not job.running and not job.may_start:
            why = "are held, or wait for something else than their turn and room"
        elif not job.queues or job.queues[0] not in names:
            why = "are in a queue that has no node that works"
        if why is None:
            (running if job.running else waiting).append(job)
        else:
            left_out[why] = left_out.get(why, 0) + 1
    waiting.sort(key=lambda job: (-job.priority, job.submit_s))
    kept = (*running, *waiting)
    elapsed = np.array([max(0.0, facts.as_of_s - (j.start_s or facts.as_of_s)) for j in kept])
    held = tuple(np.array([rows[name] for name in job.node_names], np.int64) for job in running)
    queue = Queue(_trace(kept, facts), facts.as_of_s, elapsed, held)
    return PresentQueue(queue, cluster, kept, partition_of, left_out)


def _cluster(
    facts: ClusterFacts, candidates: Sequence[Candidate]
) -> tuple[Cluster, dict[str, int], dict[str, int]]:
    """Nodes that are alike are of one kind; the row of each node; candidates' partitions."""
    places: dict[str, list[str]] = {}
    for candidate in candidates:
        for node in nodes_of(candidate, facts):
            places.setdefault(node.name, []).append(candidate.name)
    alike: dict[tuple[tuple[str, ...], tuple[str, ...], int, int], list[NodeFacts]] = {}
    for node in facts.nodes:
        if node.usable:
            queues = tuple(q for q in node.queues if q in facts.queues)
            key = (queues, tuple(places.get(node.name, ())), node.cores, sum(node.gpus.values()))
            alike.setdefault(key, []).append(node)
    kinds: list[NodeKind] = []
    rows: dict[str, int] = {}
    of_queue: dict[str, list[str]] = {}
    of_place: dict[str, list[str]] = {}
    platforms = {candidate.name: candidate.platform for candidate in candidates}
    for number, ((queues, here, cores, gpus), nodes) in enumerate(alike.items()):
        name = f"kind{number}"
        platform = platforms[here[0]] if here else ""
        kinds.append(NodeKind(name, len(nodes), cores, gpus, platform=platform))
        for node in nodes:
            rows[node.name] = len(rows)
        for queue in queues:
            of_queue.setdefault(queue, []).append(name)
        for place in here:
            of_place.setdefault(place, []).append(name)
    parts = [
        Partition(queue, tuple(inside), facts.queues[queue].max_time_s)
        for queue, inside in of_queue.items()
    ]
    if not parts:
        raise UsageError("no node of the cluster works, so nothing can start")
    at = {}
    for candidate in candidates:
        if candidate.name in of_place:
            at[candidate.name] = len(parts)
            inside = tuple(of_place[candidate.name])
            parts.append(Partition(f"place:{candidate.name}", inside, candidate.max_time_s))
    return Cluster(tuple(kinds), tuple(parts)), rows, at


def _trace(jobs: Sequence[PresentJob], facts: ClusterFacts) -> Trace:
    users, user = numbered([job.user for job in jobs])
    accounts, account = numbered([job.account for job in jobs])
    queues, queue = numbered([job.queues[0] for job in jobs])
    size = len(jobs)

    def whole(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    return Trace(
        submit_s=np.full(size, facts.as_of_s),
        runtime_s=np.ones(size),
        limit_s=np.array([_limit_s(job, facts) for job in jobs], float),
        cores=whole([job.cores for job in jobs]),
        nodes=whole([len(job.node_names) or job.nodes for job in jobs]),
        gpus=whole([job.gpus for job in jobs]),
        memory_bytes=np.zeros(size, np.int64),
        user=user,
        account=account,
        queue=queue,
        after=np.full(size, -1, np.int64),
        array=np.full(size, -1, np.int64),
        users=users,
        accounts=accounts,
        queues=queues,
        names=tuple(job.name for job in jobs),
        ids=tuple(job.job_id for job in jobs),
    )


def _limit_s(job: PresentJob, facts: ClusterFacts) -> float:
    """NaN: none is known."""
    queue = facts.queues.get(job.queues[0])
    default = None if queue is None else queue.default_time_s or queue.max_time_s
    found = job.time_limit_s or default
    return float("nan") if found is None else found
