"""Instances, layouts and the state of one GPU: frozen values and the rules of legality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.pilot.units import whole_number
from berth.predictor.hardware.mig.geometry import Geometry, Media


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """A GPU instance: where it starts (memory slice) and which profile it has."""

    start: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


@dataclass(frozen=True, slots=True, order=True)
class Layout:
    """The instances on one GPU in canonical order (by start)."""

    instances: tuple[Instance, ...] = ()

    @classmethod
    def of(cls, *instances: Instance | tuple[str, int]) -> Layout:
        """A layout from instances or ``(profile, start)`` pairs in any order."""
        made = (i if isinstance(i, Instance) else Instance(i[1], i[0]) for i in instances)
        return cls(tuple(sorted(made)))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """From ``"3g.20gb@0 1g.5gb@4"`` (also with commas); ``"-"`` or nothing is empty."""
        found = []
        for word in text.replace(",", " ").split():
            if word == "-":
                continue
            profile, at, start = word.rpartition("@")
            place = whole_number(start)
            if not at or place is None:
                raise UsageError(
                    f"{word!r} is not an instance", hint="write PROFILE@START, e.g. 1g.5gb@4"
                )
            found.append(Instance(place, profile))
        return cls(tuple(sorted(found)))

    def __str__(self) -> str:
        return " ".join(map(str, self.instances)) or "-"

    def counts(self) -> dict[str, int]:
        """How many of each profile, in order of first appearance."""
        return dict(Counter(i.profile for i in self.instances))

    def plus(self, *instances: Instance) -> Layout:
        """With these added."""
        return Layout(tuple(sorted((*self.instances, *instances))))

    def minus(self, *instances: Instance) -> Layout:
        """Without these."""
        gone = set(instances)
        return Layout(tuple(i for i in self.instances if i not in gone))

    def contains(self, instances: Iterable[Instance]) -> bool:
        """True where all of them are part of this layout."""
        return set(instances) <= set(self.instances)

    def occupied(self, geometry: Geometry) -> int:
        """The memory slices in use, as bits."""
        bits = 0
        for i in self.instances:
            bits |= geometry.profile(i.profile).mask(i.start)
        return bits

    def problem(self, geometry: Geometry) -> str | None:
        """One sentence why this GPU cannot have this layout; None: it can."""
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
        made = [geometry.by_name[i.profile] for i in self.instances]
        compute = sum(p.compute_slices for p in made)
        if compute > geometry.compute_slices:
            return f"{compute} compute slices of {geometry.compute_slices} would be in use"
        for name, count in self.counts().items():
            limit = geometry.by_name[name].max_instances
            if count > limit:
                return f"{count} instances of {name}, at most {limit} are possible"
        if not sum((p.media for p in made), Media()).fits(geometry.media):
            return "the media extensions ask for more engines than the GPU has"
        return None

    def check(self, geometry: Geometry) -> Layout:
        """Itself. Raises UsageError with the reason where the GPU cannot have it."""
        problem = self.problem(geometry)
        if problem:
            raise UsageError(f"the layout {self} is impossible on {geometry.gpu}: {problem}")
        return self

    def additions(self, geometry: Geometry) -> tuple[Instance, ...]:
        """Every single instance that could be created beside these, smallest first."""
        found = (
            Instance(start, p.name)
            for p in geometry.profiles
            for start in p.placements
            if not self.occupied(geometry) & p.mask(start)
        )
        return tuple(i for i in found if self.plus(i).problem(geometry) is None)


@dataclass(frozen=True, slots=True)
class Running:
    """An instance with work on it: it stays where it is until the work ends."""

    instance: Instance
    free_at_s: float | None = None
    """Unix time when its work is expected to end; None: not known."""
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU as it stands."""

    gpu: str
    """Name of this GPU: ``node/index`` or its UUID."""
    geometry: Geometry
    layout: Layout = Layout()
    running: tuple[Running, ...] = ()
    """The busy ones of the layout's instances."""
    mig_enabled: bool = True

    def check(self) -> GpuState:
        """Itself. Raises UsageError where the layout is impossible or lacks a running instance."""
        self.layout.check(self.geometry)
        for r in self.running:
            if r.instance not in self.layout.instances:
                raise UsageError(f"{self.gpu}: {r.instance} is said to be busy but does not exist")
        return self

    @property
    def busy(self) -> Layout:
        """The running instances as a layout: what every target must contain."""
        return Layout(tuple(sorted(r.instance for r in self.running)))

    @property
    def idle(self) -> Layout:
        """The instances that may be destroyed."""
        return self.layout.minus(*(r.instance for r in self.running))
