"""The machine that a trace is replayed on: nodes of some kinds, and the partitions they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.policies.carbon import Intensity


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that are alike. MIG slices of one type count as the GPUs of a kind of their own."""

    name: str
    count: int
    cores: int
    """Of one node."""
    gpus: int = 0
    memory_bytes: int = 0
    """Of one node; 0: not counted."""
    platform: str = ""
    """Whose run times hold here; empty: the kind's name."""
    power_per_core_w: float | None = None
    """Mean power under a job; None: not known."""
    power_per_gpu_w: float | None = None
    """Counted alone for jobs with GPUs."""
    price_per_core_hour: float | None = None
    price_per_gpu_hour: float | None = None
    price_per_node_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A queue over nodes of some kinds; two partitions may share nodes."""

    name: str
    kinds: tuple[str, ...]
    max_time_s: float | None = None
    nodes: tuple[int, ...] | None = None
    """Which nodes of its single kind, from 0; None: all."""
    priority: float = 0.0
    """Share of the partition in multifactor priority, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Whole nodes of a kind that no job may use for a time that is known in advance."""

    kind: str
    nodes: tuple[int, ...]
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that breaks, unforeseen; that it works again at ``end_s`` is known from then on."""

    kind: str
    node: int
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Cluster:
    """Kinds of nodes and partitions over them.

    ``pooled``: cores, GPUs and memory of each kind are counted in all, jobs may take any of them;
    else jobs get nodes, one by one. Pools are fast; nodes show fragmentation.
    """

    kinds: tuple[NodeKind, ...]
    partitions: tuple[Partition, ...]
    pooled: bool = False
    reservations: tuple[Reservation, ...] = ()
    failures: tuple[Failure, ...] = ()
    carbon: Intensity | None = None
    """None: no carbon is counted."""

    def __post_init__(self) -> None:
        _unique("kind of nodes", [kind.name for kind in self.kinds])
        _unique("partition", [one.name for one in self.partitions])
        if not self.partitions:
            raise UsageError("the cluster has no partition")
        for kind in self.kinds:
            if kind.count < 0 or kind.cores < 0 or kind.gpus < 0 or kind.memory_bytes < 0:
                raise UsageError(f"kind {kind.name} has a negative count")
        for part in self.partitions:
            for name in part.kinds:
                self.kind(name)
            if part.nodes is not None and len(part.kinds) != 1:
                raise UsageError(f"partition {part.name} names nodes of several kinds")
            self._check_nodes(part.kinds[0], part.nodes or (), f"partition {part.name}")
        for event in self.reservations:
            self._check_nodes(event.kind, event.nodes, "a reservation")
        for failure in self.failures:
            self._check_nodes(failure.kind, (failure.node,), "a failure")
        if self.pooled and not self.can_pool:
            raise UsageError(
                "partitions that share nodes, reservations and failures need nodes one by one",
                hint="leave out pooled",
            )

    @property
    def can_pool(self) -> bool:
        """Every partition has one kind for itself, and nothing happens to single nodes."""
        used = [name for part in self.partitions for name in part.kinds]
        whole = all(len(p.kinds) == 1 and p.nodes is None for p in self.partitions)
        return whole and len(set(used)) == len(used) and not (self.reservations or self.failures)

    def kind(self, name: str) -> NodeKind:
        """By name. Raises UsageError naming those that there are."""
        for kind in self.kinds:
            if kind.name == name:
                return kind
        known = ", ".join(kind.name for kind in self.kinds)
        raise UsageError(f"there is no kind of nodes {name!r}", hint=f"there are: {known}")

    def partition(self, name: str) -> int:
        """Its place. Raises UsageError naming those that there are."""
        for place, part in enumerate(self.partitions):
            if part.name == name:
                return place
        known = ", ".join(part.name for part in self.partitions)
        raise UsageError(f"there is no partition {name!r}", hint=f"there are: {known}")

    def platform_of(self, partition: int) -> str:
        """The platform of its (first) kind."""
        kind = self.kind(self.partitions[partition].kinds[0])
        return kind.platform or kind.name

    def _check_nodes(self, kind: str, nodes: Sequence[int], what: str) -> None:
        count = self.kind(kind).count
        if any(not 0 <= node < count for node in nodes):
            raise UsageError(f"{what} names a node that kind {kind} (0 to {count - 1}) lacks")


def one_pool(cores: int, *, name: str = "all", gpus: int = 0, memory_bytes: int = 0) -> Cluster:
    """One partition with so many cores, counted."""
    kind = NodeKind(name, 1, cores, gpus, memory_bytes)
    return Cluster((kind,), (Partition(name, (name,)),), pooled=True)


def _unique(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two of the same name: {what} {name!r}")
