"""The jobs that run and wait at present, replayed from now on by how long they are expected to run.

Each candidate is a pool of what its working nodes have. A running job holds its part of each node
until its expected end; the others start by priority, as EASY backfill would, in any of their
queues.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.plugin.scheduler import ClusterFacts, PresentJob
from berth.plugin.scheduler.states import nodes_of, room_of
from berth.policies.replay import (
    Backfill,
    Cluster,
    NodeKind,
    Option,
    Partition,
    Placement,
    Present,
    Replayed,
    Settings,
    replay,
    trace_of,
)
from berth.policies.replay.expected_waits import wait_table
from berth.policies.values import Candidate
from berth.policies.waits import WaitTable

UNKNOWN_S = 3_600.0
"""Expected of jobs without a time limit of which nothing is known."""
LEAST_LEFT_S = 60.0
"""Left of a job that has run longer than expected."""


@dataclass(frozen=True, slots=True)
class Place:
    """A candidate as it is now."""

    candidate: Candidate
    nodes: frozenset[str]
    """Names of those that work."""
    cores: int
    gpus: int
    idle_cores: int
    idle_gpus: int


@dataclass(frozen=True)
class _Fixed(Placement):
    """Options that were made before."""

    options: Sequence[Sequence[Option]]

    def place(self, job: int, present: Present) -> Sequence[Option]:
        """See Placement."""
        return self.options[job]


def wait_tables(
    jobs: Sequence[PresentJob],
    facts: ClusterFacts,
    candidates: Sequence[Candidate],
    expected_s: Mapping[str, float],
    now_s: float,
) -> dict[str, WaitTable]:
    """By candidate's name. ``expected_s``: run times in all, by job id; else the time limit."""
    places = [_place(one, facts) for one in candidates]
    places = [one for one in places if one.nodes]
    if not places:
        return {}
    done = _replayed(jobs, places, expected_s, now_s)
    return {
        one.candidate.name: wait_table(
            done, at, cores=one.cores, gpus=one.gpus if one.candidate.is_gpu else 0,
            cores_per_gpu=one.candidate.translation.cpus_per_gpu or 1,
        )
        for at, one in enumerate(places)
    }  # fmt: skip


def _replayed(
    jobs: Sequence[PresentJob],
    places: Sequence[Place],
    expected_s: Mapping[str, float],
    now_s: float,
) -> Replayed:
    cluster = Cluster(
        tuple(NodeKind(p.candidate.name, 1, p.cores, p.gpus) for p in places),
        tuple(Partition(p.candidate.name, (p.candidate.name,)) for p in places),
        pooled=True,
    )
    rows = _running(jobs, places, expected_s, now_s)
    waiting = sorted(
        (one for one in jobs if not one.running and one.may_start),
        key=lambda one: (-one.priority, one.submit_s, one.job_id),
    )
    rows += [options for one in waiting if (options := _waiting(one, places, expected_s))]
    first = [options[0] for options in rows]
    trace = trace_of(
        np.zeros(len(rows)),
        np.array([one.runtime_s for one in first], float),
        np.array([one.cores for one in first], np.int64),
        gpus=np.array([one.gpus for one in first], np.int64),
        queue=np.array([one.partition for one in first], np.int64),
        queues=tuple(one.candidate.name for one in places),
    )
    return replay(trace, cluster, Settings(Backfill.EASY), _Fixed(rows))


def _place(candidate: Candidate, facts: ClusterFacts) -> Place:
    nodes = [one for one in nodes_of(candidate, facts) if one.usable]
    cores, gpus, idle_cores, idle_gpus = room_of(candidate, nodes)
    names = frozenset(one.name for one in nodes)
    return Place(candidate, names, cores, gpus, idle_cores, idle_gpus)


def _running(
    jobs: Sequence[PresentJob],
    places: Sequence[Place],
    expected_s: Mapping[str, float],
    now_s: float,
) -> list[list[Option]]:
    """What runs; on each place no more than is in use there, and all of it."""
    found: list[list[Option]] = []
    for at, place in enumerate(places):
        used = [place.cores - place.idle_cores, place.gpus - place.idle_gpus]
        longest_s = 0.0
        for one in jobs:
            inside = sum(name in place.nodes for name in one.node_names) if one.running else 0
            if not inside or not any(used):
                continue
            part = inside / len(one.node_names)
            cores = min(used[0], math.ceil(one.cores * part))
            gpus = min(used[1], math.ceil(one.gpus * part))
            if not (cores or gpus):
                continue
            left_s = _left_s(one, expected_s.get(one.job_id), now_s)
            longest_s = max(longest_s, left_s)
            found.append([_option(at, cores, gpus, left_s, left_s)])
            used = [used[0] - cores, used[1] - gpus]
        if any(used):  # in use by what the scheduler does not show
            left_s = longest_s or UNKNOWN_S
            found.append([_option(at, used[0], used[1], left_s, left_s)])
    return found


def _waiting(
    job: PresentJob, places: Sequence[Place], expected_s: Mapping[str, float]
) -> list[Option]:
    limit_s = job.time_limit_s or math.inf
    run_s = min(expected_s.get(job.job_id, job.time_limit_s or UNKNOWN_S), limit_s)
    planned_s = limit_s if math.isfinite(limit_s) else run_s
    able = [
        at
        for at, place in enumerate(places)
        if place.candidate.queue in job.queues
        and job.cores <= place.cores
        and job.gpus <= place.gpus
    ]
    alike = [at for at in able if places[at].candidate.is_gpu == (job.gpus > 0)]
    return [_option(at, job.cores, job.gpus, run_s, planned_s) for at in alike or able]


def _option(at: int, cores: int, gpus: int, run_s: float, planned_s: float) -> Option:
    return Option(at, 1, cores, gpus, 0, run_s, planned_s, math.inf)


def _left_s(job: PresentJob, expected_s: float | None, now_s: float) -> float:
    """How long a running job runs on."""
    elapsed_s = max(0.0, now_s - (job.start_s or now_s))
    limit_s = job.time_limit_s or math.inf
    for total_s in (expected_s, job.time_limit_s):
        if total_s is not None and total_s > elapsed_s:
            return min(total_s, limit_s) - elapsed_s
    return LEAST_LEFT_S if job.time_limit_s else max(UNKNOWN_S, elapsed_s)
