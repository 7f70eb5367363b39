"""The cluster that a trace is replayed on: kinds of nodes, partitions, and MIG GPUs.

MIG slices of one profile are a kind of nodes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.policies.mig.layout import GpuInstance, Layout
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import MARK, part_of_gpu


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A group of nodes of the simulated cluster that have equal resources.

    MIG slices of one profile are a kind of their own (``Cluster.sliced``): one node for each slice,
    without cores and memory of the host.
    """

    name: str
    count: int
    cores: int
    """Cores of one node."""
    gpus: int = 0
    memory_bytes: int = 0
    """Memory of one node; 0: memory is not a resource here."""
    platform: str = ""
    """Name of the platform whose run times apply to these nodes; empty: the kind's name."""
    power_per_core_w: float | None = None
    """Mean power per core in watts while a job runs; None: unknown."""
    power_per_gpu_w: float | None = None
    """Mean power per GPU in watts while a job runs; cores of GPU jobs add no power to it."""
    price_per_core_hour: float | None = None
    price_per_gpu_hour: float | None = None
    gpu_part: float = 1.0
    """The part of a physical GPU that one GPU of this kind is: less than 1 for MIG slices."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A queue for the nodes of some kinds; two partitions may share nodes."""

    name: str
    kinds: tuple[str, ...]
    max_time_s: float | None = None
    nodes: tuple[int, ...] | None = None
    """Numbers (from 0) of the partition's nodes within its single kind; None: all nodes."""
    kind_of: str = ""
    """Name of the scheduler's partition of which this is one kind of nodes; empty: it is one."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Whole nodes of a kind that are closed to jobs for a time known in advance."""

    kind: str
    nodes: tuple[int, ...]
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class SlicedGpus:
    """MIG GPUs of one model, all with the same possible profiles."""

    name: str
    geometry: Geometry
    count: int
    layout: Layout
    """The layout of each GPU."""
    profiles: tuple[str, ...]
    """The profiles that jobs can request; no other instances are created."""

    def __post_init__(self) -> None:
        self.layout.check(self.geometry)
        unknown = sorted({i.profile for i in self.layout.instances} - set(self.profiles))
        if unknown:
            raise UsageError(f"{self.name}: no job can ask for the slice {unknown[0]}")
        if self.count < 0:
            raise UsageError(f"{self.name} has a negative number of GPUs")

    def kind(self, profile: str) -> str:
        """Return the name of the node kind for slices of this profile."""
        return f"{self.name}-{profile}"

    def slices(self, profile: str) -> int:
        """Return the number of slices of this profile."""
        return self.count * self.layout.counts().get(profile, 0)


@dataclass(frozen=True)
class Cluster:
    """The kinds of nodes and the partitions over them.

    ``pooled``: cores, GPUs and memory of each kind are one pool, and a job may take any of them;
    otherwise each job gets particular nodes. Pools replay faster; nodes show fragmentation.
    """

    kinds: tuple[NodeKind, ...]
    partitions: tuple[Partition, ...]
    pooled: bool = False
    reservations: tuple[Reservation, ...] = ()
    carbon_g_per_kwh: float | None = None
    """Carbon intensity of the electricity; None: carbon is not computed."""
    sliced: tuple[SlicedGpus, ...] = ()
    """MIG GPUs; ``kinds`` has a kind of nodes for each profile of their slices."""

    def __post_init__(self) -> None:
        _unique("kind of nodes", [kind.name for kind in self.kinds])
        _unique("partition", [part.name for part in self.partitions])
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
        if self.pooled and not self.can_pool:
            raise UsageError(
                "shared nodes, reservations and slices need nodes one by one",
                hint="leave out pooled",
            )

    @property
    def can_pool(self) -> bool:
        """Return whether the cluster can be replayed in pools.

        Each partition must have one kind of nodes that no other partition uses, and no
        reservation or MIG slice may concern single nodes.
        """
        used = [name for part in self.partitions for name in part.kinds]
        whole = all(len(p.kinds) == 1 and p.nodes is None for p in self.partitions)
        events = self.reservations or self.sliced
        return whole and len(set(used)) == len(used) and not events

    @property
    def queues(self) -> tuple[str, ...]:
        """Return the names of the partitions that the scheduler has."""
        return tuple(part.name for part in self.partitions if not part.kind_of)

    @property
    def slice_kinds(self) -> frozenset[str]:
        """Return the names of the node kinds that are MIG slices."""
        return frozenset(gpus.kind(profile) for gpus in self.sliced for profile in gpus.profiles)

    @property
    def whole_gpus(self) -> int:
        """Return the number of physical GPUs, including MIG GPUs."""
        plain = sum(k.count * k.gpus for k in self.kinds if k.name not in self.slice_kinds)
        return plain + sum(gpus.count for gpus in self.sliced)

    def kind(self, name: str) -> NodeKind:
        """Return the kind with this name. Raises UsageError listing the known kinds."""
        for kind in self.kinds:
            if kind.name == name:
                return kind
        known = ", ".join(kind.name for kind in self.kinds)
        raise UsageError(f"there is no kind of nodes {name!r}", hint=f"there are: {known}")

    def partition(self, name: str) -> int:
        """Return the index of the partition with this name. Raises UsageError listing the
        partitions."""
        for place, part in enumerate(self.partitions):
            if part.name == name:
                return place
        known = ", ".join(part.name for part in self.partitions)
        raise UsageError(f"there is no partition {name!r}", hint=f"there are: {known}")

    def platform_of(self, partition: int) -> str:
        """Return the platform name of the partition's first kind of nodes."""
        kind = self.kind(self.partitions[partition].kinds[0])
        return kind.platform or kind.name

    def _check_nodes(self, kind: str, nodes: Sequence[int], subject: str) -> None:
        count = self.kind(kind).count
        if any(not 0 <= node < count for node in nodes):
            raise UsageError(f"{subject} names a node that kind {kind} (0 to {count - 1}) lacks")


def one_pool(cores: int) -> Cluster:
    """Return a cluster of one partition with this many cores as one pool."""
    return Cluster((NodeKind("all", 1, cores),), (Partition("all", ("all",)),), pooled=True)


def slices_of(gpus: SlicedGpus, whole: NodeKind) -> tuple[NodeKind, ...]:
    """Return the node kinds for the slices of ``gpus``; ``whole``: kind of nodes with the GPUs
    unsliced."""
    kinds = []
    for profile in gpus.profiles:
        share = part_of(gpus, profile)
        price, power = whole.price_per_gpu_hour, whole.power_per_gpu_w
        kinds.append(
            NodeKind(
                gpus.kind(profile), gpus.slices(profile), cores=0, gpus=1,
                platform=platform_of(whole.platform or whole.name, profile),
                power_per_gpu_w=None if power is None else power * share,
                price_per_gpu_hour=None if price is None else price * share,
                gpu_part=share,
            )
        )  # fmt: skip
    return tuple(kinds)


def _unique(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two of the same name: {kind} {name!r}")


def whole(geometry: Geometry) -> Layout:
    """Return the layout of one slice that takes the whole GPU."""
    largest = max(plain(geometry), key=lambda p: (p.compute_slices, p.memory_slices))
    return Layout((GpuInstance(largest.placements[0], largest.name),))


def plain(geometry: Geometry) -> Sequence[SliceProfile]:
    """Return the GPU's MIG profiles without media extensions."""
    return [profile for profile in geometry.profiles if profile.is_plain]


def platform_of(whole_gpu: str, profile: str) -> str:
    """Return the platform name of a MIG slice."""
    return f"{whole_gpu}{MARK}{profile}"


def part_of(gpus: SlicedGpus, profile: str) -> float:
    """Return the part of the GPU, 0 to 1, that other jobs cannot use beside such a slice."""
    return part_of_gpu(gpus.geometry, gpus.geometry.profile(profile))
