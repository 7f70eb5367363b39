"""No job gets less time, less protection, fewer cores, less memory or a higher bill than where it
was submitted: drawn sites and jobs, and Slurm's rules in a few lines of their own.

100,000 cases: ``BERTH_CASES=100000 pytest tests/policies/test_no_loss.py``.
"""

from __future__ import annotations

import math
import os
from random import Random
from typing import Any, NamedTuple

from policy_builders import GIB, NOW_S, H, cpu, curve, forecast, gpu, request, state

from berth.policies.decide import Decider
from berth.policies.settings import FitSettings, PolicySettings
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    DefaultMemory,
    Demands,
    OwnQueue,
    QueueBounds,
    Request,
    Resources,
)

CASES = int(os.environ.get("BERTH_CASES", "5000"))
PLACES = (
    cpu("a", platform="cpu"), cpu("b", platform="cpu", cores_per_node=64), cpu("c", platform="old"),
    gpu("g", platform="gpu"),
)  # fmt: skip
KNOWN = (
    None,
    forecast(curve("cpu", 80.0), curve("old", 100.0), curve("gpu", 8.0, gpus=True)),
    forecast(curve("cpu", 80.0), curve("old", 20.0), targets=("cpu",)),
    forecast(curve("cpu", 80.0), curve("gpu", 2.0, gpus=True)),
)
DECIDERS = tuple(
    Decider(
        PLACES,
        PolicySettings(list_queues=True, fit=FitSettings(), objective=objective),
        explains=False,
    )
    for objective in ("fastest", "cheapest")
)


class Gets(NamedTuple):
    """What a job gets in one queue, by Slurm's rules."""

    time_s: float
    is_safe: bool
    has_whole_cores: bool
    has_whole_nodes: bool
    physical_cores: float
    memory_bytes: float
    bill: float
    tier: int


def gets(
    job: Request,
    queue: QueueBounds,
    memory: int,
    limit_s: float | None,
    held: Resources,
    cores: int,
) -> Gets:
    """What the job gets with these resources.

    ``cores``: of a node; ``memory``: by default, per core.
    """
    whole = queue.exclusive or (job.needs.exclusive and queue.jobs_per_core == 0)
    asked_cpus = held.tasks * held.cpus_per_task
    cpus = (
        max(asked_cpus, cores * queue.cpus_per_core * max(1, held.nodes)) if whole else asked_cpus
    )
    weights = dict(queue.billing_weights) or {"cpu": 1.0}
    return Gets(
        limit_s or queue.default_time_s or queue.max_time_s or math.inf,
        queue.preemptible is None,
        queue.jobs_per_core <= 1,
        whole,
        cpus / queue.cpus_per_core,
        cpus * ((held.memory_bytes_per_node or 0) / asked_cpus or memory),  # asked for by core
        weights["cpu"] * cpus + weights.get("gres/gpu", 0.0) * held.gpus,
        queue.priority_tier,
    )


class Drawn:
    """One site and job."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - cases, always the same
        self.queues = {place.name: self.queue() for place in PLACES}
        self.memory = {place.name: self.of((1, 2)) * GIB for place in PLACES}
        own, self.own_memory = self.queue(), self.of((1, 2)) * GIB
        limit_s = own.default_time_s or own.max_time_s
        self.job = request(
            queue="auto", wants_placement=True, workload="lu", user=f"u{seed}",
            nodes=1, tasks=self.of((1, 4, 8)), cpus_per_task=self.of((1, 2)),
            time_limit_s=self.of((None, None, H)),
            needs=Demands(exclusive=self.of((False,) * 9 + (True,)),
                        never_requeue=self.of((False, True))),
            own=OwnQueue(
                bounds=own, limit_s=limit_s, cores_per_node=64, cpus_per_core=own.cpus_per_core,
                default_memory=DefaultMemory(
                    bytes_per_core=self.own_memory, node_cores=64 * own.cpus_per_core,
                    most_node_cores=64 * own.cpus_per_core,
                    whole_nodes=own.exclusive,
                ),
                places=self.of((("a", "c"), ("a",), None)),
            ),
        )  # fmt: skip
        self.own = own
        self.known = self.of(KNOWN)
        self.decider = self.of(DECIDERS)

    def of(self, values: tuple[Any, ...]) -> Any:
        return values[int(self._random.random() * len(values))]

    def queue(self) -> QueueBounds:
        seldom = self._random.random
        exclusive = seldom() < 0.1
        return QueueBounds(
            max_time_s=self.of((None, 48 * H, 2 * H, 1800.0)),
            default_time_s=self.of((None, None, 600.0, H)),
            exclusive=exclusive,
            cpus_per_core=2 if seldom() < 0.1 else 1,
            billing_weights=self.of(
                ((), (), (("cpu", 1.0),), (("cpu", 1.0), ("gres/gpu", 30.0)), (("cpu", 3.0),))
            ),
            preemptible="owners" if seldom() < 0.15 else None,
            jobs_per_core=0 if exclusive else self.of((0, 0, 0, 0, 1, 2)),
            priority_tier=self.of((1, 1, 1, 0, 2)),
        )

    def decided(self) -> Decision:
        return self.decider.decide(self.job, self.states(), self.known, NOW_S)

    def states(self) -> dict[str, CandidateState]:
        return {
            place.name: state(
                bounds=self.queues[place.name],
                default_memory=DefaultMemory(
                    bytes_per_core=self.memory[place.name],
                    node_cores=place.cores_per_node * self.queues[place.name].cpus_per_core,
                    whole_nodes=self.queues[place.name].exclusive,
                ),
            )
            for place in PLACES
        }  # fmt: skip


def losses(drawn: Drawn) -> tuple[str | None, list[str]]:
    """The queue that the job gets, and what it loses there."""
    decision, job = drawn.decided(), drawn.job
    if decision.edit is None or decision.edit.queue is None:
        return None, []
    before = gets(
        job, drawn.own, drawn.own_memory, job.time_limit_s, job.resources,
        64,
    )  # fmt: skip
    runtimes = {row.candidate: row.runtime_s for row in decision.ranked}
    slowest = max((runtimes[n].mid for n in job.own.places or () if runtimes.get(n)), default=None)
    problems = []
    for name in decision.edit.queue.split(","):
        place = next(place for place in PLACES if place.queue == name)
        problems += [f"{name}: {what}" for what in _losses(drawn, decision, place, before, slowest)]
    return decision.edit.queue, problems


def _losses(
    drawn: Drawn, decision: Decision, place: Candidate, before: Gets, slowest_s: float | None
) -> list[str]:
    job, edit, rules = drawn.job, decision.edit, drawn.queues[place.name]
    assert edit is not None
    held = edit.resources or job.resources
    after = gets(
        job, rules, drawn.memory[place.name], edit.time_limit_s or job.time_limit_s, held,
        place.cores_per_node,
    )  # fmt: skip
    longest = min(place.max_time_s or math.inf, rules.max_time_s or math.inf)
    runtime = next(row.runtime_s for row in decision.ranked if row.candidate == place.name)
    faster = 1.0
    if slowest_s is not None and runtime is not None and decision.code == "placed":
        faster = min(1.0, runtime.mid / slowest_s)
    moved_to_gpu = held.gpus > 0
    return [
        what
        for what, is_lost in (
            ("time", min(after.time_s, longest) < min(before.time_s, job.time_limit_s or math.inf)),
            ("protection", before.is_safe and not after.is_safe),
            ("never requeue", job.needs.never_requeue and before.is_safe and not after.is_safe),
            ("priority", after.tier < before.tier),
            ("own cores", before.has_whole_cores and not after.has_whole_cores),
            ("whole nodes", before.has_whole_nodes and not after.has_whole_nodes),
            ("cores", not moved_to_gpu and after.physical_cores < before.physical_cores
             and not before.has_whole_nodes),
            ("memory", not moved_to_gpu and after.memory_bytes < before.memory_bytes),
            ("bill", after.bill * faster > before.bill * (1 + 1e-9)),
        )
        if is_lost
    ]  # fmt: skip


def test_no_job_gets_less_than_where_it_was_submitted() -> None:
    moved = 0
    for seed in range(CASES):
        queue, problems = losses(Drawn(seed))
        assert problems == [], (seed, queue, problems)
        moved += queue is not None
    assert moved > CASES / 10
