"""The machine that a trace is replayed on: nodes of some kinds, partitions over them, GPUs cut into
slices.

MIG slices of one profile are a kind of nodes of their own, with one row for every place on every
GPU where such a slice may be; rows of slices that do not exist at the moment take no job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.policies.carbon import Intensity
from berth.policies.mig.layout import Instance, Layout
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import MARK, part_of_gpu

MOST_FAILURES = 100_000
"""Most failures of one replay: more are a mistake in the numbers."""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Equal nodes. MIG slices of one profile are a kind of their own, a node for each place where
    such a slice may be (``Cluster.sliced``), without the host's cores and memory.
    """

    name: str
    count: int
    cores: int
    """Cores of one node."""
    gpus: int = 0
    memory_bytes: int = 0
    """Memory of one node; 0: not counted."""
    platform: str = ""
    """Whose run times hold for these nodes; empty: the kind's name."""
    power_per_core_w: float | None = None
    """Mean power under a job; None: not known."""
    power_per_gpu_w: float | None = None
    """Mean power of a GPU under a job; for jobs with GPUs it is counted alone."""
    price_per_core_hour: float | None = None
    price_per_gpu_hour: float | None = None
    price_per_node_hour: float | None = None
    gpu_part: float = 1.0
    """The part of a whole GPU that one of its GPUs is: less than 1 for slices."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A queue over nodes of some kinds; two partitions may share nodes."""

    name: str
    kinds: tuple[str, ...]
    max_time_s: float | None = None
    nodes: tuple[int, ...] | None = None
    """The nodes of its single kind, from 0; None: all."""
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
class SlicedGpus:
    """GPUs of one model that are cut into slices."""

    name: str
    geometry: Geometry
    count: int
    layout: Layout
    """The layout of each GPU at first."""
    profiles: tuple[str, ...]
    """The profiles that jobs can ask for; a GPU is cut into no others."""

    def __post_init__(self) -> None:
        self.layout.check(self.geometry)
        unknown = sorted({i.profile for i in self.layout.instances} - set(self.profiles))
        if unknown:
            raise UsageError(f"{self.name}: no job can ask for the slice {unknown[0]}")
        if self.count < 0:
            raise UsageError(f"{self.name} has a negative number of GPUs")

    def kind(self, profile: str) -> str:
        """Return the name of the kind of nodes that slices of this profile are."""
        return f"{self.name}-{profile}"

    def places(self, profile: str) -> tuple[int, ...]:
        """Return where on a GPU such a slice may begin, in the order of the kind's rows."""
        return tuple(self.geometry.profile(profile).placements)

    def rows(self, profile: str) -> int:
        """Return how many rows the kind of this profile has."""
        return self.count * len(self.places(profile))

    def instances(self) -> Iterator[tuple[str, int, int, Instance]]:
        """Yield ``(kind, row in it, GPU, instance)`` of every slice that may ever be."""
        for profile in self.profiles:
            places = self.places(profile)
            for gpu in range(self.count):
                for at, begin in enumerate(places):
                    yield self.kind(profile), gpu * len(places) + at, gpu, Instance(begin, profile)


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
    sliced: tuple[SlicedGpus, ...] = ()
    """GPUs whose slices are kinds of nodes here."""

    def __post_init__(self) -> None:
        _unique("kind of nodes", [kind.name for kind in self.kinds])
        _unique("partition", [part.name for part in self.partitions])
        if not self.partitions:
            raise UsageError("the cluster has no partition")
        for gpus in self.sliced:
            for profile in gpus.profiles:
                if self.kind(gpus.kind(profile)).count != gpus.rows(profile):
                    raise UsageError(f"kind {gpus.kind(profile)} lacks places of slices")
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
                "shared nodes, reservations, failures and slices need nodes one by one",
                hint="leave out pooled",
            )

    @property
    def can_pool(self) -> bool:
        """Return whether every partition has one kind for itself, and nothing happens to single
        nodes."""
        used = [name for part in self.partitions for name in part.kinds]
        whole = all(len(p.kinds) == 1 and p.nodes is None for p in self.partitions)
        events = self.reservations or self.failures or self.sliced
        return whole and len(set(used)) == len(used) and not events

    @property
    def slice_kinds(self) -> frozenset[str]:
        """Return the kinds of nodes that are slices."""
        return frozenset(gpus.kind(profile) for gpus in self.sliced for profile in gpus.profiles)

    @property
    def whole_gpus(self) -> int:
        """Return how many GPUs there are, those that are cut among them."""
        plain = sum(k.count * k.gpus for k in self.kinds if k.name not in self.slice_kinds)
        return plain + sum(gpus.count for gpus in self.sliced)

    def kind(self, name: str) -> NodeKind:
        """Return a kind by its name. Raises UsageError naming those that there are."""
        for kind in self.kinds:
            if kind.name == name:
                return kind
        known = ", ".join(kind.name for kind in self.kinds)
        raise UsageError(f"there is no kind of nodes {name!r}", hint=f"there are: {known}")

    def partition(self, name: str) -> int:
        """Return the place of a partition. Raises UsageError naming those that there are."""
        for place, part in enumerate(self.partitions):
            if part.name == name:
                return place
        known = ", ".join(part.name for part in self.partitions)
        raise UsageError(f"there is no partition {name!r}", hint=f"there are: {known}")

    def platform_of(self, partition: int) -> str:
        """Return the platform of a partition's (first) kind."""
        kind = self.kind(self.partitions[partition].kinds[0])
        return kind.platform or kind.name

    def _check_nodes(self, kind: str, nodes: Sequence[int], subject: str) -> None:
        count = self.kind(kind).count
        if any(not 0 <= node < count for node in nodes):
            raise UsageError(f"{subject} names a node that kind {kind} (0 to {count - 1}) lacks")


def one_pool(cores: int, *, name: str = "all", gpus: int = 0, memory_bytes: int = 0) -> Cluster:
    """Return a cluster of one partition with so many cores, counted as a pool."""
    kind = NodeKind(name, 1, cores, gpus, memory_bytes)
    return Cluster((kind,), (Partition(name, (name,)),), pooled=True)


def slices_of(gpus: SlicedGpus, whole: NodeKind) -> tuple[NodeKind, ...]:
    """Return the kinds of the slices of GPUs that are ``whole`` where they are not cut."""
    kinds = []
    for profile in gpus.profiles:
        share = part_of(gpus, profile)
        price, power = whole.price_per_gpu_hour, whole.power_per_gpu_w
        kinds.append(
            NodeKind(
                gpus.kind(profile), gpus.rows(profile), cores=0, gpus=1,
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
    """Return a layout of one slice that is all of the GPU."""
    largest = max(plain(geometry), key=lambda p: (p.compute_slices, p.memory_slices))
    return Layout((Instance(largest.placements[0], largest.name),))


def full_layouts(gpus: SlicedGpus) -> tuple[Layout, ...]:
    """Return layouts of slices that jobs can ask for, with room for no other.

    There is one for each number of slices of each profile.
    """
    by_counts: dict[tuple[tuple[str, int], ...], Layout] = {}
    todo = [Layout()]
    while todo:
        partial = todo.pop()
        more = [i for i in partial.additions(gpus.geometry) if i.profile in gpus.profiles]
        last = partial.instances[-1].start if partial.instances else -1
        todo += [partial.plus(i) for i in more if i.start > last]
        if not more:
            by_counts.setdefault(tuple(sorted(partial.counts().items())), partial)
    return tuple(
        sorted(by_counts.values(), key=lambda layout: (len(layout.instances), str(layout)))
    )


def plain(geometry: Geometry) -> Sequence[SliceProfile]:
    """Return the profiles without media extensions."""
    return [profile for profile in geometry.profiles if profile.is_plain]


def platform_of(whole_gpu: str, profile: str) -> str:
    """Return the name of the platform of a slice."""
    return f"{whole_gpu}{MARK}{profile}"


def part_of(gpus: SlicedGpus, profile: str) -> float:
    """Return the part of the GPU that others cannot have beside such a slice."""
    return part_of_gpu(gpus.geometry, gpus.geometry.profile(profile))


def random_failures(
    cluster: Cluster, *, mean_s: float, repair_s: float, begin_s: float, end_s: float, seed: int = 0
) -> tuple[Failure, ...]:
    """Return failures within ``[begin_s, end_s)``, drawn by ``seed``, in order of time.

    ``mean_s``: mean time between the failures of one node, exponential; ``repair_s``: how long each
    is out, always the same. Slices do not break on their own. Raises UsageError.
    """
    if not (mean_s > 0 and repair_s > 0):
        raise UsageError("nodes break and are repaired after more than 0 s")
    nodes = [
        (kind.name, node)
        for kind in cluster.kinds
        if kind.name not in cluster.slice_kinds
        for node in range(kind.count)
    ]
    if (end_s - begin_s) * len(nodes) > MOST_FAILURES * mean_s:
        raise UsageError(
            f"{len(nodes)} nodes would break more than {MOST_FAILURES} times",
            hint="give a longer time between failures",
        )
    generator = np.random.default_rng(seed)
    failures: list[Failure] = []
    for kind, node in nodes:
        moment = begin_s + float(generator.exponential(mean_s))
        while moment < end_s:
            failures.append(Failure(kind, node, moment, moment + repair_s))
            moment += repair_s + float(generator.exponential(mean_s))
    return tuple(
        sorted(failures, key=lambda failure: (failure.begin_s, failure.kind, failure.node))
    )
