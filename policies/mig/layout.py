"""MIG layouts of one GPU: its instances, the rules for them, its state, and every legal layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from berth.pilot.errors import UsageError
from berth.pilot.units import whole_number
from berth.predictor.hardware.mig.geometry import Geometry, Media


@dataclass(frozen=True, slots=True, order=True)
class GpuInstance:
    """A GPU instance: the memory slice where it starts and the name of its profile."""

    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """The instances on one GPU, sorted by starting memory slice."""

    instances: tuple[GpuInstance, ...] = ()

    @classmethod
    def of(cls, *instances: GpuInstance | tuple[str, int]) -> Layout:
        """Return a layout of instances or ``(profile, start)`` pairs in any order."""
        instances_ = (
            i if isinstance(i, GpuInstance) else GpuInstance(i[1], i[0]) for i in instances
        )
        return cls(tuple(sorted(instances_)))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout written as ``"3g.20gb@0 1g.5gb@4"`` (spaces or commas).

        ``"-"`` or an empty text gives the empty layout. Raises UsageError for any other text.
        """
        instances = []
        for word in text.replace(",", " ").split():
            if word == "-":
                continue
            profile, at, start = word.rpartition("@")
            place = whole_number(start)
            if not at or place is None:
                raise UsageError(
                    f"{word!r} is not an instance", hint="write PROFILE@START, e.g. 1g.5gb@4"
                )
            instances.append(GpuInstance(place, profile))
        return cls(tuple(sorted(instances)))

    def __str__(self) -> str:
        return " ".join(map(str, self.instances)) or "-"

    def counts(self) -> dict[str, int]:
        """Return the number of instances of each profile, in order of first appearance."""
        return dict(Counter(i.profile for i in self.instances))

    def plus(self, *instances: GpuInstance) -> Layout:
        """Return the layout with these instances added."""
        return Layout(tuple(sorted((*self.instances, *instances))))

    def minus(self, *instances: GpuInstance) -> Layout:
        """Return the layout without these instances."""
        gone = set(instances)
        return Layout(tuple(i for i in self.instances if i not in gone))

    def contains(self, instances: Iterable[GpuInstance]) -> bool:
        """Return whether all the given instances are part of this layout."""
        return set(instances) <= set(self.instances)

    def occupied(self, geometry: Geometry) -> int:
        """Return the used memory slices as a bit mask."""
        bits = 0
        for i in self.instances:
            bits |= geometry.profile(i.profile).mask(i.start)
        return bits

    def problem(self, geometry: Geometry) -> str | None:
        """Return one sentence on why this GPU cannot have this layout; None: it can."""
        return self._misplaced(geometry) or self._too_much(geometry)

    def _misplaced(self, geometry: Geometry) -> str | None:
        occupied = 0
        for i in self.instances:
            p = geometry.by_name.get(i.profile)
            if p is None:
                return f"{geometry.gpu} has no MIG profile {i.profile!r}"
            if i.start not in p.placements:
                at = ", ".join(map(str, p.placements))
                return f"a {i.profile} may start at memory slice {at}, not at {i.start}"
            if occupied & p.mask(i.start):
                return f"{i} overlaps another instance"
            occupied |= p.mask(i.start)
        return None

    def _too_much(self, geometry: Geometry) -> str | None:
        profiles = [geometry.by_name[i.profile] for i in self.instances]
        compute = sum(p.compute_slices for p in profiles)
        if compute > geometry.compute_slices:
            return f"{compute} compute slices of {geometry.compute_slices} would be in use"
        for name, count in self.counts().items():
            limit = geometry.by_name[name].max_instances
            if count > limit:
                return f"{count} instances of {name}, at most {limit} are possible"
        if not sum((p.media for p in profiles), Media()).fits(geometry.media):
            return "the media extensions ask for more engines than the GPU has"
        return None

    def spelled(self, geometry: Geometry) -> Layout:
        """Return the layout with each profile's other name replaced by the geometry's own."""
        known = ((geometry.named(i.profile), i) for i in self.instances)
        return Layout.of(*((p.name, i.start) if p else i for p, i in known))

    def check(self, geometry: Geometry) -> Layout:
        """Return the layout unchanged. Raises UsageError where the GPU cannot have this layout."""
        problem = self.problem(geometry)
        if problem:
            raise UsageError(f"the layout {self} is impossible on {geometry.gpu}: {problem}")
        return self

    def additions(self, geometry: Geometry) -> tuple[GpuInstance, ...]:
        """Return each instance that could be added to this layout on its own, in the profiles'
        order."""
        free_places = (
            GpuInstance(start, p.name)
            for p in geometry.profiles
            for start in p.placements
            if not self.occupied(geometry) & p.mask(start)
        )
        return tuple(i for i in free_places if self.plus(i).problem(geometry) is None)


def exclude(geometry: Geometry, first: GpuInstance, second: GpuInstance) -> bool:
    """Return whether the two instances cannot exist on the GPU at the same time."""
    p, q = geometry.profile(first.profile), geometry.profile(second.profile)
    return bool(
        p.mask(first.start) & q.mask(second.start)
        or p.compute_slices + q.compute_slices > geometry.compute_slices
        or (p.name == q.name and p.max_instances < 2)
        or not (p.media + q.media).fits(geometry.media)
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A busy instance, which must stay in its place until its work ends."""

    instance: GpuInstance
    free_at_s: float | None = None
    """Unix time when the work is expected to end; None: unknown."""
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """The present MIG state of one GPU: its layout, and which instances are busy."""

    gpu: str
    """Name of the GPU: ``node/index`` or the UUID."""
    geometry: Geometry
    layout: Layout = Layout()
    running: tuple[Running, ...] = ()
    """The layout's instances that are busy."""
    mig_enabled: bool = True

    def check(self) -> GpuState:
        """Return the state unchanged. Raises UsageError for an illegal layout or a missing busy
        instance."""
        self.layout.check(self.geometry)
        for r in self.running:
            if r.instance not in self.layout.instances:
                raise UsageError(f"{self.gpu}: {r.instance} is said to be busy but does not exist")
        return self

    @property
    def busy(self) -> Layout:
        """Return the busy instances as a layout."""
        return Layout(tuple(sorted(r.instance for r in self.running)))


Counts = tuple[int, ...]
"""Numbers of instances of each profile, in the order of the geometry's profiles."""


@dataclass(frozen=True)
class States:
    """All legal layouts of one geometry; any subset of a legal layout is legal."""

    geometry: Geometry
    layouts: tuple[Layout, ...]
    """The legal layouts, sorted; the empty layout is included."""

    @cached_property
    def maximal(self) -> tuple[Layout, ...]:
        """Return the layouts to which no instance can be added."""
        return tuple(x for x in self.layouts if not x.additions(self.geometry))

    @cached_property
    def bit(self) -> dict[GpuInstance, int]:
        """Return a bit for each possible instance (profile and start), for encoding layouts as
        integers."""
        places = (GpuInstance(s, p.name) for p in self.geometry.profiles for s in p.placements)
        return {instance: 1 << n for n, instance in enumerate(places)}

    def coded(self, layout: Layout) -> int:
        """Return the layout as an integer: the sum of its instances' bits."""
        return sum(self.bit[i] for i in layout.instances)

    @cached_property
    def codes(self) -> tuple[tuple[int, Layout, tuple[int, ...]], ...]:
        """Return, for every layout, its code, the layout, and its number of instances of each
        profile."""
        return tuple((self.coded(x), x, self.counts(x)) for x in self.layouts)

    def counts(self, layout: Layout) -> Counts:
        """Return the layout's number of instances of each profile, in the geometry's order."""
        by_name = layout.counts()
        return tuple(by_name.get(p.name, 0) for p in self.geometry.profiles)


def enumerate_states(geometry: Geometry) -> States:
    """Return the legal layouts of this geometry; the result is cached.

    The first call takes a few milliseconds. NVIDIA's placements give 298 layouts (19 maximal) on
    GPUs with seven slices, 723 (78 maximal) where the 1g profile with double memory exists, and 26
    (5 maximal) on an A30, each without the media variants.
    """
    return _enumerate(_Key(geometry))


class _Key:
    """Cache key of a geometry, equal for two GPUs of one model and equal profiles."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.identity = (
            geometry.gpu, geometry.compute_slices, geometry.memory_slices,
            geometry.profiles, geometry.media,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.identity == other.identity


@lru_cache(maxsize=256)
def _enumerate(key: _Key) -> States:
    geometry = key.geometry
    capacity = geometry.media
    starting_at: list[list[tuple[int, int]]] = [[] for _ in range(geometry.memory_slices)]
    for number, p in enumerate(geometry.profiles):
        for start in p.placements:
            starting_at[start].append((number, p.mask(start)))
    layouts: list[Layout] = []
    chosen: list[GpuInstance] = []
    left = [p.max_instances for p in geometry.profiles]

    def extend(slice_: int, free: int, compute: int, media: Media) -> None:
        if slice_ == geometry.memory_slices:
            layouts.append(Layout(tuple(chosen)))
            return
        extend(slice_ + 1, free, compute, media)
        for number, mask in starting_at[slice_]:
            p = geometry.profiles[number]
            total = media + p.media
            if mask & ~free or compute < p.compute_slices or not left[number]:
                continue
            if not total.fits(capacity):
                continue
            left[number] -= 1
            chosen.append(GpuInstance(slice_, p.name))
            extend(slice_ + 1, free & ~mask, compute - p.compute_slices, total)
            chosen.pop()
            left[number] += 1

    everything = (1 << geometry.memory_slices) - 1
    extend(0, everything, geometry.compute_slices, Media())
    return States(geometry, tuple(sorted(layouts)))


def arrange(
    geometry: Geometry,
    counts: Mapping[str, int],
    *,
    current: Layout | None = None,
    busy: Layout | None = None,
) -> Layout:
    """Return the layout with these numbers of instances that changes ``current`` least.

    Instances in ``busy`` keep their places. Raises UsageError where the GPU lacks a profile, or the
    instances cannot exist together or beside the busy ones.
    """
    current, busy = current or Layout(), busy or Layout()
    wanted = {name: n for name, n in counts.items() if n}
    for name, n in wanted.items():
        if n < 0:
            raise UsageError(f"{n} instances of {name} make no sense")
        geometry.profile(name)
    text = ", ".join(f"{n} x {name}" for name, n in wanted.items()) or "no instance"
    narrow = geometry.restricted({*wanted, *(i.profile for i in busy.instances)})
    fitting = [x for x in enumerate_states(narrow).layouts if x.counts() == wanted]
    if not fitting:
        raise UsageError(f"{geometry.gpu} cannot hold {text} at the same time")
    beside = [x for x in fitting if x.contains(busy.instances)]
    if not beside:
        raise UsageError(f"{geometry.gpu} cannot hold {text} while {busy} stays")
    now = set(current.instances)
    return min(beside, key=lambda x: (len(now ^ set(x.instances)), x))
