"""A cluster as a scheduler describes it, in no scheduler's own terms: queues and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.policies.limits import Rights
from berth.policies.values import DefaultMemory, QueueBounds


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
    """GPUs by type, for example ``{"gpu:h200": 4}``."""
    idle_gpus: Mapping[str, int] = field(default_factory=dict)
    system: str | None = None
    """Operating system and kernel as the node reports them; None: the scheduler does not say."""
    used_memory_bytes: int = 0
    """Given to jobs; 0 also where the scheduler does not share out memory."""
    cpus_per_core: int = 1
    """Hardware threads of a core, where the scheduler gives jobs those."""


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
    bounds: QueueBounds = field(default_factory=QueueBounds)
    qos: str | None = None
    """Quality of service whose limits hold for all jobs of the queue."""
    not_for_users: str | None = None
    """Why it is not offered to users, in the scheduler's word: ``hidden``, ``RootOnly``."""
    closed: str | None = None
    """The scheduler's word for a queue that is not up, and what it means for jobs."""
    default_memory: DefaultMemory | None = None
    """The memory of a job that asks for none; None: memory is not shared out."""


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """Nodes that are kept from jobs for a time. Times are Unix seconds."""

    name: str
    nodes: frozenset[str]
    begin_s: float
    end_s: float


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
    rights: Rights | None = None
    """Limits of users and accounts; None: the scheduler enforces none."""
