"""GPUs that are cut into MIG slices, as a replay has them.

Each profile is a kind of nodes with one row for every place on every GPU where such a slice may
be; rows of slices that do not exist at the moment take no job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.policies.mig.hysteresis import Hysteresis
from berth.policies.mig.layout import Instance, Layout
from berth.predictor.hardware.mig import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import MARK, part_of_gpu

PATIENCE = Hysteresis(min_dwell_s=1_800.0, min_gain=0.05)
"""As ``[trigger]`` of the site's settings has it."""


@dataclass(frozen=True)
class SlicedGpus:
    """GPUs of one model."""

    name: str
    geometry: Geometry
    count: int
    layout: Layout
    """Of each at first."""
    profiles: tuple[str, ...]
    """Those that jobs can ask for; a GPU is cut into no others."""

    def __post_init__(self) -> None:
        self.layout.check(self.geometry)
        unknown = sorted({i.profile for i in self.layout.instances} - set(self.profiles))
        if unknown:
            raise UsageError(f"{self.name}: no job can ask for the slice {unknown[0]}")
        if self.count < 0:
            raise UsageError(f"{self.name} has a negative number of GPUs")

    def kind(self, profile: str) -> str:
        """Name of the kind of nodes that slices of this profile are."""
        return f"{self.name}-{profile}"

    def places(self, profile: str) -> tuple[int, ...]:
        """Where on a GPU such a slice may begin, in the order of the kind's rows."""
        return tuple(self.geometry.profile(profile).placements)

    def rows(self, profile: str) -> int:
        """How many rows the kind has."""
        return self.count * len(self.places(profile))

    def instances(self) -> Iterator[tuple[str, int, int, Instance]]:
        """``(kind, row in it, GPU, instance)`` of every slice that may ever be."""
        for profile in self.profiles:
            places = self.places(profile)
            for gpu in range(self.count):
                for at, begin in enumerate(places):
                    yield self.kind(profile), gpu * len(places) + at, gpu, Instance(begin, profile)


@dataclass(frozen=True, slots=True)
class Recutting:
    """When GPUs are cut anew while jobs come: the rules of ``berth mig auto``."""

    every_s: float = 300.0
    """How often the queue is looked at."""
    cost_s: float = 60.0
    """From the decision until the new slices take jobs. Until then the GPU is drained: no job
    starts on it; those that run there run on."""
    objectives: str = "jobs"
    patience: Hysteresis = PATIENCE
    window_s: float = 4 * 3_600.0
    """Jobs that came so lately are expected to go on coming; 0: only what waits counts."""
    horizon_s: float = 1_800.0
    solver: str = "heuristic"
    """As ``berth mig plan --solver``; the heuristic needs milliseconds for a fleet."""

    def __post_init__(self) -> None:
        if not (self.every_s > 0 and self.cost_s >= 0):
            raise UsageError("GPUs are looked at every some seconds, and cut in no less than 0 s")


@dataclass(frozen=True, slots=True)
class Recut:
    """One GPU that was cut anew."""

    at_s: float
    gpus: str
    """Name of the ``SlicedGpus``."""
    gpu: int
    before: Layout
    after: Layout
    ready_s: float
    """From then on the new slices take jobs."""


def whole(geometry: Geometry) -> Layout:
    """One slice that is all of the GPU."""
    largest = max(plain(geometry), key=lambda p: (p.compute_slices, p.memory_slices))
    return Layout((Instance(largest.placements[0], largest.name),))


def full_layouts(gpus: SlicedGpus) -> tuple[Layout, ...]:
    """Ways to cut a GPU into slices that jobs can ask for, with room for no other: one for each
    number of slices of each profile."""
    found: dict[tuple[tuple[str, int], ...], Layout] = {}
    todo = [Layout()]
    while todo:
        one = todo.pop()
        more = [i for i in one.additions(gpus.geometry) if i.profile in gpus.profiles]
        last = one.instances[-1].start if one.instances else -1
        todo += [one.plus(i) for i in more if i.start > last]
        if not more:
            found.setdefault(tuple(sorted(one.counts().items())), one)
    return tuple(sorted(found.values(), key=lambda layout: (len(layout.instances), str(layout))))


def plain(geometry: Geometry) -> Sequence[SliceProfile]:
    """Profiles without media extensions."""
    return [profile for profile in geometry.profiles if profile.is_plain]


def platform_of(whole_gpu: str, profile: str) -> str:
    """Name of the platform of a slice."""
    return f"{whole_gpu}{MARK}{profile}"


def part_of(gpus: SlicedGpus, profile: str) -> float:
    """Of the GPU that others cannot have."""
    return part_of_gpu(gpus.geometry, gpus.geometry.profile(profile))
