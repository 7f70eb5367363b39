"""Convert the cluster and queue as the scheduler reports them now into the inputs of a replay.

Resources in use on a node by no visible job belong to a *hidden* job without an id. Memory counts
only where the scheduler allocates memory to jobs. A node with several types of GPUs appears once
per type, each time with all its cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.scheduler import ClusterFacts, NodeFacts, PresentJob
from berth.plugin.scheduler.facts import ReservationFacts
from berth.plugin.scheduler.states import nodes_of
from berth.policies.replay import Cluster, NodeKind, Option, Partition, Present, Trace
from berth.policies.replay.cluster import Reservation
from berth.policies.replay.live import Queue
from berth.policies.replay.trace import Ints, numbered
from berth.policies.values import Candidate


@dataclass(frozen=True)
class PresentQueue:
    """The part of the scheduler's state that can be replayed."""

    queue: Queue
    cluster: Cluster
    jobs: tuple[PresentJob, ...]
    """The jobs in the order of the queue's rows: running, hidden (without an id), then waiting."""
    partition_of: Mapping[str, int]
    """Index of each candidate's own partition, by the candidate's name."""
    partitions: tuple[tuple[int, ...], ...]
    """For each job, the indices of the partitions where it runs or may start."""
    left_out: Mapping[str, int]
    """Number of jobs that are not replayed, by reason."""

    @property
    def waiting(self) -> tuple[PresentJob, ...]:
        """Return the waiting jobs, in the queue's order."""
        return self.jobs[self.queue.running :]

    @property
    def running(self) -> int:
        """Return the number of running jobs, without hidden ones."""
        return sum(1 for job in self.jobs[: self.queue.running] if job.job_id)

    @property
    def listed(self) -> bool:
        """Return whether any waiting job may start in more than one queue."""
        return any(len(partitions) > 1 for partitions in self.partitions[self.queue.running :])


class InTheirQueues:
    """The Placement by which each waiting job may start in any of the queues it was submitted
    to."""

    def __init__(self, present: PresentQueue, drawn: Trace) -> None:
        self._partitions, self._drawn = present.partitions, drawn

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """Return the job's options, one per queue, as ``Placement.place`` does; None: it has only
        one queue."""
        del present
        partitions, trace = self._partitions[job], self._drawn
        if len(partitions) < 2:
            return None
        limit_s = float(trace.limit_s[job])
        limit_s = math.inf if math.isnan(limit_s) else limit_s
        return [
            Option(
                partition, int(trace.nodes[job]), int(trace.cores[job]), int(trace.gpus[job]),
                int(trace.memory_bytes[job]), float(trace.runtime_s[job]), limit_s, limit_s,
            )
            for partition in partitions
        ]  # fmt: skip


class _NodeRow(NamedTuple):
    """A node, or the part of a node with one type of GPU."""

    node: NodeFacts
    gpu_type: str | None
    gpus: int
    idle_gpus: int


def present_queue(
    facts: ClusterFacts,
    jobs: Sequence[PresentJob],
    candidates: Sequence[Candidate] = (),
    reservations: Sequence[ReservationFacts] = (),
) -> PresentQueue:
    """Return the present queue: running jobs on their nodes, then waiting jobs by descending
    priority.

    ``reservations`` keep their nodes free of jobs that could still run when the reservation begins.
    Raises UsageError where no node works.
    """
    mapped = _mapped(facts, candidates)
    reserved = _reserved(reservations, mapped, facts.as_of_s)
    mapped = mapped._replace(cluster=replace(mapped.cluster, reservations=reserved))
    left_out: dict[str, int] = {}
    running: list[PresentJob] = []
    waiting: list[PresentJob] = []
    names = {part.name: index for index, part in enumerate(mapped.cluster.partitions)}
    for job in jobs:
        why = None
        if job.running and not all(name in mapped.rows_of for name in job.node_names):
            why = "run on nodes that take no others"
        elif job.running and (not job.node_names or job.start_s is None):
            why = "run on nodes that the scheduler does not name"
        elif not job.running and not job.may_start:
            why = "are held, or wait for something else than their turn and room"
        elif not any(name in names for name in job.queues):
            why = "are in a queue that has no node that works"
        if why is None:
            (running if job.running else waiting).append(job)
        else:
            left_out[why] = left_out.get(why, 0) + 1
    waiting.sort(key=lambda job: (-job.priority, job.submit_s, job.job_id))
    waiting, lost = _parents_first(running, waiting)
    if lost:
        left_out[_LOST] = lost
    held = [_held(job, mapped) for job in running]
    running = [_evenly(job, rows, mapped) for job, rows in zip(running, held, strict=True)]
    hidden, there = _hidden(running, held, mapped, facts)
    replayed = (*running, *hidden, *waiting)
    held += there
    elapsed = np.array([max(0.0, facts.as_of_s - (j.start_s or facts.as_of_s)) for j in replayed])
    units = tuple(np.array(rows, np.int64) for rows in held)
    queue = Queue(_trace(replayed, held, names, facts), facts.as_of_s, elapsed, units)
    partitions = tuple(
        tuple(names[name] for name in job.queues if name in names) for job in replayed
    )  # fmt: skip
    return PresentQueue(queue, mapped.cluster, replayed, mapped.partition_of, partitions, left_out)


_LOST = "wait for jobs that are not replayed"


def _parents_first(
    running: Sequence[PresentJob], waiting: Sequence[PresentJob]
) -> tuple[list[PresentJob], int]:
    """Return the waiting jobs, each after the jobs it depends on, and the number of jobs left out.

    Jobs are left out if a job they depend on is missing.
    """
    there = {job.job_id for job in running}
    unmet = [{parent for parent in job.after if parent not in there} for job in waiting]
    children: dict[str, list[int]] = {}
    for row, names in enumerate(unmet):
        for name in names:
            children.setdefault(name, []).append(row)
    order = [row for row, names in enumerate(unmet) if not names]
    for row in order:  # grows
        for child in children.get(waiting[row].job_id, ()):
            unmet[child].discard(waiting[row].job_id)
            order += [child] * (not unmet[child])
    return [waiting[row] for row in order], len(waiting) - len(order)


class _Mapped(NamedTuple):
    """The cluster of the replay, and the correspondence between its nodes and the real nodes."""

    cluster: Cluster
    rows: tuple[_NodeRow, ...]
    """The rows, in the order of the cluster's nodes."""
    rows_of: Mapping[str, tuple[int, ...]]
    """Indices of each node's rows, by the node's name."""
    partition_of: Mapping[str, int]
    """Index of each candidate's partition, by the candidate's name."""


def _mapped(facts: ClusterFacts, candidates: Sequence[Candidate]) -> _Mapped:
    """Return a cluster in which equal nodes form one kind and each candidate has its own
    partition."""
    candidates_of: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        for node in nodes_of(candidate, facts):
            candidates_of.setdefault(node.name, []).append(candidate)
    equal_rows: dict[tuple[tuple[str, ...], tuple[str, ...], int, int, int], list[_NodeRow]] = {}
    counts_memory = shares_memory(facts)
    for row in (row for node in facts.nodes if node.usable for row in _rows(node)):
        queues = tuple(q for q in row.node.queues if q in facts.queues)
        candidate_names = tuple(
            candidate.name
            for candidate in candidates_of.get(row.node.name, ())
            if _is_of(candidate, row)
        )
        memory = row.node.memory_bytes if counts_memory else 0
        equal_rows.setdefault(
            (queues, candidate_names, row.node.cores, row.gpus, memory), []
        ).append(row)
    kinds: list[NodeKind] = []
    rows: list[_NodeRow] = []
    of_queue: dict[str, list[NodeKind]] = {}
    kinds_of: dict[str, list[str]] = {}
    platforms = {candidate.name: candidate.platform for candidate in candidates}
    for number, ((queues, candidate_names, cores, gpus, memory), same) in enumerate(
        equal_rows.items()
    ):
        platform = platforms[candidate_names[0]] if candidate_names else ""
        kinds.append(NodeKind(f"kind{number}", len(same), cores, gpus, memory, platform=platform))
        rows += same
        for queue in queues:
            of_queue.setdefault(queue, []).append(kinds[-1])
        for name in candidate_names:
            kinds_of.setdefault(name, []).append(kinds[-1].name)
    parts = [
        # Jobs without GPUs use nodes without GPUs first.
        Partition(
            queue,
            tuple(candidate.name for candidate in sorted(inside, key=lambda kind: kind.gpus > 0)),
            facts.queues[queue].max_time_s,
        )
        for queue, inside in of_queue.items()
    ]
    if not parts:
        raise UsageError("no node of the cluster works, so nothing can start")
    at = {}
    for candidate in candidates:
        if candidate.name in kinds_of:
            at[candidate.name] = len(parts)
            inside = tuple(kinds_of[candidate.name])
            parts.append(Partition(f"place:{candidate.name}", inside, candidate.max_time_s))
    rows_of: dict[str, tuple[int, ...]] = {}
    for at_row, row in enumerate(rows):
        rows_of[row.node.name] = (*rows_of.get(row.node.name, ()), at_row)
    return _Mapped(Cluster(tuple(kinds), tuple(parts)), tuple(rows), rows_of, at)


def shares_memory(facts: ClusterFacts) -> bool:
    """Return whether the scheduler allocates memory to jobs, besides cores and GPUs."""
    return any(node.used_memory_bytes for node in facts.nodes)


def _reserved(
    reservations: Sequence[ReservationFacts], mapped: _Mapped, now_s: float
) -> tuple[Reservation, ...]:
    """Return the reservations that have not ended, on nodes that work."""
    kind_of = [(kind.name, n) for kind in mapped.cluster.kinds for n in range(kind.count)]
    reserved = []
    for reservation in reservations:
        held: dict[str, list[int]] = {}
        for node in sorted(reservation.nodes) if reservation.end_s > now_s else ():
            for row in mapped.rows_of.get(node, ()):
                held.setdefault(kind_of[row][0], []).append(kind_of[row][1])
        reserved += [
            Reservation(kind, tuple(nodes), reservation.begin_s, reservation.end_s)
            for kind, nodes in held.items()
        ]
    return tuple(reserved)


def _rows(node: NodeFacts) -> Iterable[_NodeRow]:
    if len(node.gpus) < 2:
        total, idle = sum(node.gpus.values()), sum(node.idle_gpus.values())
        return (_NodeRow(node, next(iter(node.gpus), None), total, idle),)
    return tuple(
        _NodeRow(node, name, count, node.idle_gpus.get(name, 0))
        for name, count in node.gpus.items()
    )


def _is_of(candidate: Candidate, row: _NodeRow) -> bool:
    """Return whether a row of a candidate's node has GPUs of the candidate's type."""
    if not candidate.is_gpu:
        return row.gpu_type is None or row.gpu_type == next(iter(row.node.gpus))
    wanted, gpu_type = candidate.gres, row.gpu_type or ""
    return wanted is None or gpu_type == wanted or gpu_type.startswith(f"{wanted}:")


def _held(job: PresentJob, mapped: _Mapped) -> list[int]:
    """Return the indices of the cluster's nodes (rows) that a running job occupies.

    On a node with several GPU types, it is the row with most GPUs in use.
    """
    rows_held = []
    for name in job.node_names:
        rows = mapped.rows_of[name]
        rows_held.append(max(rows, key=lambda at: mapped.rows[at].gpus - mapped.rows[at].idle_gpus))
    return rows_held


def _evenly(job: PresentJob, rows: Sequence[int], mapped: _Mapped) -> PresentJob:
    """Return a running job with its cores and GPUs limited to equal shares of its nodes.

    A replay gives a job the same on each node, so a share is at most what the smallest node has.
    The rest of the job's resources counts as used by a hidden job.
    """
    cores = min(mapped.rows[at].node.cores for at in rows)
    gpus = min(mapped.rows[at].gpus for at in rows)
    return replace(
        job, cores=min(job.cores, len(rows) * cores), gpus=min(job.gpus, len(rows) * gpus)
    )


def _hidden(
    running: Sequence[PresentJob],
    held: Sequence[Sequence[int]],
    mapped: _Mapped,
    facts: ClusterFacts,
) -> tuple[list[PresentJob], list[list[int]]]:
    """Return a hidden job for each node with resources in use by no running job, and the nodes'
    indices."""
    cores, gpus, memory = ([0] * len(mapped.rows) for _ in range(3))
    for job, rows in zip(running, held, strict=True):
        for at in rows:
            cores[at] += -(-job.cores // len(rows))
            gpus[at] += -(-job.gpus // len(rows))
            memory[at] += job.memory_bytes
    jobs: list[PresentJob] = []
    there: list[list[int]] = []
    for at, row in enumerate(mapped.rows):
        node = row.node
        queue = next((name for name in node.queues if name in facts.queues), None)
        more_cores = max(0, node.cores - node.idle_cores - cores[at])
        more_gpus = max(0, row.gpus - row.idle_gpus - gpus[at])
        more_memory = max(0, node.used_memory_bytes - memory[at])
        if queue is None or not (more_cores or more_gpus):
            continue
        jobs.append(
            PresentJob(
                "", "", (queue,), True, more_cores, facts.as_of_s, gpus=more_gpus,
                node_names=(node.name,), start_s=facts.as_of_s, memory_bytes=more_memory,
            )
        )  # fmt: skip
        there.append([at])
    return jobs, there


def _trace(
    jobs: Sequence[PresentJob],
    held: Sequence[Sequence[int]],
    names: Mapping[str, int],
    facts: ClusterFacts,
) -> Trace:
    users, user = numbered([job.user for job in jobs])
    accounts, account = numbered([job.account for job in jobs])
    first = [next(name for name in job.queues if name in names) for job in jobs]
    queues, queue = numbered(first)
    size = len(jobs)
    memory = [job.memory_bytes for job in jobs] if shares_memory(facts) else [0] * size

    def whole(values: Sequence[int]) -> Ints:
        return np.array(values, np.int64)

    return Trace(
        submit_s=np.full(size, facts.as_of_s),
        runtime_s=np.ones(size),
        limit_s=np.array(
            [_limit_s(*job_and_queue, facts) for job_and_queue in zip(jobs, first, strict=True)],
            float,
        ),
        cores=whole([job.cores for job in jobs]),
        nodes=whole([*map(len, held), *(job.nodes for job in jobs[len(held) :])]),
        gpus=whole([job.gpus for job in jobs]),
        memory_bytes=whole(memory),
        user=user,
        account=account,
        queue=queue,
        after=_after(jobs),
        array=np.full(size, -1, np.int64),
        users=users,
        accounts=accounts,
        queues=queues,
        names=tuple(job.name for job in jobs),
        ids=tuple(job.job_id for job in jobs),
    )


def _after(jobs: Sequence[PresentJob]) -> Ints:
    """Return, for each job, the row of the last listed job that it depends on; -1: no
    dependency."""
    row_of = {job.job_id: row for row, job in enumerate(jobs)}
    return np.array(
        [max((row_of[parent] for parent in job.after), default=-1) for job in jobs], np.int64
    )


def _limit_s(job: PresentJob, queue_name: str, facts: ClusterFacts) -> float:
    """Return the job's time limit in seconds; NaN: unknown."""
    queue = facts.queues.get(queue_name)
    default = None if queue is None else queue.default_time_s or queue.max_time_s
    limit_s = job.time_limit_s or (default if job.job_id else None)
    return float("nan") if limit_s is None else limit_s
