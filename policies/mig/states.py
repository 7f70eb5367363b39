"""Every reachable layout of a GPU, and the maximal ones: a table, built once per geometry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from berth.policies.mig.layout import Instance, Layout
from berth.predictor.hardware.mig.geometry import Geometry, Media

Counts = tuple[int, ...]
"""How many of each profile, in the geometry's order."""


@dataclass(frozen=True)
class States:
    """All legal layouts of one geometry (any subset of a legal layout is legal)."""

    geometry: Geometry
    layouts: tuple[Layout, ...]
    """Sorted; the empty layout included."""

    @cached_property
    def maximal(self) -> tuple[Layout, ...]:
        """Layouts to which nothing can be added."""
        return tuple(x for x in self.layouts if not x.additions(self.geometry))

    @cached_property
    def index(self) -> frozenset[Layout]:
        """For asking whether a layout is legal."""
        return frozenset(self.layouts)

    @cached_property
    def bit(self) -> dict[Instance, int]:
        """One bit for each place (profile and start), to write layouts as numbers."""
        places = (Instance(s, p.name) for p in self.geometry.profiles for s in p.placements)
        return {instance: 1 << n for n, instance in enumerate(places)}

    def coded(self, layout: Layout) -> int:
        """The layout as a number: the sum of its places' bits."""
        return sum(self.bit[i] for i in layout.instances)

    @cached_property
    def codes(self) -> tuple[tuple[int, Layout, tuple[int, ...]], ...]:
        """Every layout as a number, itself, and how many of each profile it has."""
        return tuple((self.coded(x), x, self.counts(x)) for x in self.layouts)

    def beside(self, busy: Layout) -> tuple[Layout, ...]:
        """The layouts that keep these instances where they are."""
        kept = self.coded(busy)
        return tuple(x for code, x, _ in self.codes if code & kept == kept)

    def counts(self, layout: Layout) -> Counts:
        """How many of each profile the layout has."""
        found = layout.counts()
        return tuple(found.get(p.name, 0) for p in self.geometry.profiles)


def enumerate_states(geometry: Geometry) -> States:
    """The reachable layouts of this geometry; cached (a few milliseconds the first time).

    The counts that NVIDIA's placements give: 298 layouts, 19 of them maximal, on seven-slice
    parts without the double-memory 1g; 723 and 78 with it; 26 and 5 on an A30; each without the
    media variants.
    """
    return _enumerate(_Key(geometry))


class _Key:
    """Geometries by what they can be cut into: equal for two GPUs of one model."""

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
    found: list[Layout] = []
    chosen: list[Instance] = []
    left = [p.max_instances for p in geometry.profiles]

    def extend(slice_: int, free: int, compute: int, media: Media) -> None:
        if slice_ == geometry.memory_slices:
            found.append(Layout(tuple(chosen)))
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
            chosen.append(Instance(slice_, p.name))
            extend(slice_ + 1, free & ~mask, compute - p.compute_slices, total)
            chosen.pop()
            left[number] += 1

    everything = (1 << geometry.memory_slices) - 1
    extend(0, everything, geometry.compute_slices, Media())
    return States(geometry, tuple(sorted(found)))
