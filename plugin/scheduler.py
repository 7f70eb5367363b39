"""The door to a scheduler: what Berth asks of any of them, in nobody's own terms.

A scheduler is read as ``ClusterFacts`` (queues and nodes as they are now); from these come the
candidates' states and a first site file. Jobs go out as a command that ``render`` makes and
``submit`` runs; what became of them comes back as Outcomes. Slurm is in ``plugin.slurm``, Flux
in ``plugin.flux``; ``scheduler_named`` gives either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from berth.pilot.errors import UsageError
from berth.policies.values import Candidate, CandidateState, Edit, Request


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. Cores are physical ones; ``gpus`` counts by the scheduler's type name."""

    name: str
    queues: tuple[str, ...]
    usable: bool
    cores: int
    idle_cores: int
    memory_bytes: int
    architecture: str = "x86_64"
    features: tuple[str, ...] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    """For example ``{"gpu:h200": 4}``."""
    idle_gpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One partition or queue. ``None`` lists mean everybody."""

    name: str
    up: bool
    is_default: bool = False
    max_time_s: float | None = None
    default_time_s: float | None = None
    allowed_accounts: tuple[str, ...] | None = None
    allowed_qos: tuple[str, ...] | None = None
    pending_jobs: int = 0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One reading of the whole cluster, at Unix time ``as_of_s``."""

    name: str
    version: str
    as_of_s: float
    queues: Mapping[str, QueueFacts]
    nodes: tuple[NodeFacts, ...]
    owner: str | None = None
    """The user that the scheduler runs as, where it says so."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run: a batch script with arguments, or a command."""

    words: tuple[str, ...]
    is_script: bool
    comment: str | None = None


ENDED = frozenset(("completed", "failed", "timeout", "out-of-memory", "cancelled"))
"""States of a job that runs no more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job. None: the scheduler does not tell. Times are Unix seconds."""

    job_id: str
    state: str
    """``pending``, ``running``, ``completed``, ``failed``, ``timeout``, ``out-of-memory``,
    ``cancelled`` or ``unknown``."""
    queue: str
    elapsed_s: float
    """From its start to its end, or until now; without the time it was suspended."""
    nodes: str = ""
    peak_memory_bytes: int | None = None
    """The largest of one task."""
    user: str = ""
    decision: str | None = None
    """Id of the decision whose stamp the job carries."""
    exit_status: int | None = None
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    node_count: int | None = None
    cores: int | None = None
    """As the scheduler counts them: on Slurm hardware threads, where the site counts those."""
    gpus: int | None = None
    """In all, whole GPUs or slices."""
    time_limit_s: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """Jobs that ended, with Berth's stamp or without."""

    outcomes: tuple[Outcome, ...]
    problem: str | None = None
    """Why some that ended are not here, in one sentence; None: all are."""


_STAMP = re.compile(r"\bberth/1 id=([0-9a-z]{1,32})(?![0-9a-z])")


def stamped_decision(text: str) -> str | None:
    """The id in a stamp (``berth/1 id=...``) somewhere in ``text``; None: there is none."""
    found = _STAMP.search(text)
    return None if found is None else found[1]


class Scheduler(Protocol):
    """What Berth needs from a scheduler. All raise SchedulerError or ToolMissing on failure."""

    name: str

    def read(self) -> ClusterFacts:
        """The cluster as it is now."""
        ...

    def render(self, job: Job, request: Request, edit: Edit | None) -> tuple[str, ...]:
        """The submitting command: the request as asked, with the edit put in."""
        ...

    def submit(self, command: Sequence[str]) -> str:
        """Run a command that ``render`` made; the new job's id."""
        ...

    def outcomes(self, job_ids: Sequence[str]) -> Mapping[str, Outcome]:
        """What is known of these jobs; ids that the scheduler has forgotten are absent."""
        ...

    def ended(self, since_s: float, until_s: float, known: Mapping[str, float]) -> EndedJobs:
        """Jobs of all users that ended between two Unix times, as far as it remembers.

        ``known``: Unix time of the end by job id. A job that ended at that time is left out, so
        that what is costly to ask of a job is asked once.
        """
        ...


SCHEDULERS = ("slurm", "flux")


def scheduler_named(name: str) -> Scheduler:
    """The scheduler of that name. Raises UsageError for another."""
    if name == "slurm":
        from berth.plugin.slurm.scheduler import Slurm  # noqa: PLC0415 - only the one that is used

        return Slurm()
    if name == "flux":
        from berth.plugin.flux.scheduler import Flux  # noqa: PLC0415

        return Flux()
    raise UsageError(f"there is no scheduler {name!r}", hint=f"choose {' or '.join(SCHEDULERS)}")


def states_of(facts: ClusterFacts, candidates: Iterable[Candidate]) -> Mapping[str, CandidateState]:
    """The state of each candidate; one whose queue is not there is down. Read-only."""
    by_queue: dict[str, list[NodeFacts]] = {}
    for node in facts.nodes:
        for queue in node.queues:
            by_queue.setdefault(queue, []).append(node)
    return MappingProxyType({c.name: _state(c, facts, by_queue) for c in candidates})


def _state(
    candidate: Candidate, facts: ClusterFacts, by_queue: Mapping[str, list[NodeFacts]]
) -> CandidateState:
    queue = facts.queues.get(candidate.queue)
    working = [n for n in by_queue.get(candidate.queue, ()) if n.usable]
    nodes = [n for n in working if _is_of(candidate, n)]
    return CandidateState(
        up=queue is not None and queue.up,
        idle_cores=sum(n.idle_cores for n in nodes),
        idle_gpus=sum(_count(n.idle_gpus, candidate.gres) for n in nodes),
        pending_jobs=0 if queue is None else queue.pending_jobs,
        as_of_s=facts.as_of_s,
        usable_nodes=len(nodes),
        gpu_types=tuple(sorted({kind for n in working for kind in n.gpus})),
    )


def _is_of(candidate: Candidate, node: NodeFacts) -> bool:
    if candidate.is_gpu and _count(node.gpus, candidate.gres) == 0:
        return False
    wanted = candidate.constraint
    return wanted is None or all(name in node.features for name in wanted.split("&"))


def _count(gpus: Mapping[str, int], gres: str | None) -> int:
    """GPUs of that type; of any type where none, or only ``gpu``, is named."""
    return sum(
        count
        for name, count in gpus.items()
        if gres is None or name == gres or name.startswith(f"{gres}:")
    )
