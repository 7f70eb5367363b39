"""Values that describe a cluster's queues, nodes and reservations, the same for every scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.policies.limits import Rights
from berth.policies.values import DefaultMemory, QueueBounds


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The state of one node. Cores are physical; GPUs are counted by the scheduler's name of their
    type. Cores and memory are those that jobs can have.
    """

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
    """Operating system and kernel as the node reports them; None: the scheduler does not report
    them.
    """
    used_memory_bytes: int = 0
    """Memory allocated to jobs; 0 also where the scheduler does not allocate memory."""
    cpus_per_core: int = 1
    """Hardware threads of a core, where the scheduler allocates threads; else 1."""
    reserved_cores: int = 0
    """Further cores of the hardware, which the scheduler gives to no job (Slurm:
    ``CoreSpecCount``); ``reserved_memory_bytes`` (``MemSpecLimit``) likewise.
    """
    reserved_memory_bytes: int = 0

    @property
    def installed_cores(self) -> int:
        """Return the cores of the hardware."""
        return self.cores + self.reserved_cores

    @property
    def benchmarked_cores(self) -> tuple[int, int]:
        """Return the two numbers of cores that a benchmark on the node may count: the scheduler
        confines its job to those that jobs can have, or does not.
        """
        return self.installed_cores, self.cores

    @property
    def installed_memory_bytes(self) -> int:
        """Return the memory of the hardware in bytes."""
        return self.memory_bytes + self.reserved_memory_bytes


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The state and limits of one partition or queue.

    None for ``allowed_accounts`` or ``allowed_qos``: everybody is allowed.
    """

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
    """Name of the quality of service (QOS) whose limits hold for all jobs of the queue."""
    not_for_users: str | None = None
    """Why users may not use the queue (``Hidden=YES``, ``RootOnly=YES``); None: they may."""
    closed: str | None = None
    """Why the queue is not up, in the scheduler's word with its consequence for jobs; None: it is
    up.
    """
    default_memory: DefaultMemory | None = None
    """The memory of a job that requests none; None: the scheduler does not allocate memory."""


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """A reservation: nodes that other jobs may not use for a time. Times are Unix seconds."""

    name: str
    nodes: frozenset[str]
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The state of the whole cluster, read at Unix time ``as_of_s``."""

    name: str
    version: str
    as_of_s: float
    queues: Mapping[str, QueueFacts]
    nodes: tuple[NodeFacts, ...]
    owner: str | None = None
    """The user that the scheduler runs as; None: the scheduler does not report that user."""
    rights: Rights | None = None
    """Limits of users and accounts; None: the scheduler enforces none."""
    refuses_lists: bool = False
    """True: a list of queues is refused where one of them refuses the job."""
