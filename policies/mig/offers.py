"""What a GPU can offer as it stands: every layout that leaves running instances where they are.

An offer is a target layout with the slots that jobs could take in it. Slots are counted by kind
(GPU model, profile, when it becomes ready); running instances that will not end within the
horizon are part of every offer and are no slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from berth.policies.mig.layout import GpuState, Instance, Layout
from berth.policies.mig.states import enumerate_states
from berth.predictor.hardware.mig.geometry import Geometry


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """Slots that are alike for every job."""

    gpu: str
    profile: str
    ready_ms: int = 0
    """Milliseconds from now until it can be used, rounded up to its class."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for one job in a target layout."""

    instance: Instance
    ready_ms: int
    created: bool
    """False: the instance exists already."""


Counts = tuple[tuple[Kind, int], ...]
"""How many slots of each kind, sorted by kind, none of them zero."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One target layout and what it offers."""

    layout: Layout
    recuts: int
    """Instances destroyed plus instances created to get there."""
    counts: Counts


@dataclass(frozen=True, slots=True)
class Standing:
    """One GPU as the planner sees it; equal for GPUs that can be planned alike."""

    geometry: Geometry
    """Only with the profiles that matter here."""
    layout: Layout
    pinned: Layout
    """Running beyond the horizon, or nobody knows until when."""
    ending: tuple[tuple[Instance, int], ...]
    """Running, with the milliseconds until each ends."""
    frozen: bool = False
    """True: its layout must stay as it is."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for GPUs with the same offers."""
        g = self.geometry
        return (g.gpu, g.profiles, self.layout, self.pinned, self.ending, self.frozen)

    def slots(self, target: Layout) -> tuple[Slot, ...]:
        """The places for jobs in a target layout, by start."""
        return tuple(
            Slot(i, self._ready_ms(i, target), i not in self.layout.instances)
            for i in target.instances
            if i not in self.pinned.instances
        )

    def _ready_ms(self, instance: Instance, target: Layout) -> int:
        waits = [0]
        for old, ends_ms in self.ending:
            if old == instance or (
                old not in target.instances and exclude(self.geometry, old, instance)
            ):
                waits.append(ends_ms)
        return max(waits)


def exclude(geometry: Geometry, one: Instance, other: Instance) -> bool:
    """True where the two cannot exist at the same time."""
    p, q = geometry.profile(one.profile), geometry.profile(other.profile)
    return bool(
        p.mask(one.start) & q.mask(other.start)
        or p.compute_slices + q.compute_slices > geometry.compute_slices
        or (p.name == q.name and p.max_instances < 2)
        or not (p.media + q.media).fits(geometry.media)
    )


def standing(
    state: GpuState,
    profiles: frozenset[str],
    *,
    now_s: float = 0.0,
    horizon_s: float = 0.0,
    frozen: bool = False,
    ready_step_ms: int = 1,
) -> Standing:
    """The GPU with the demanded ``profiles``, seen from ``now_s`` with a look ``horizon_s`` ahead.

    Ready times are rounded up to multiples of ``ready_step_ms`` so that many GPUs look alike.
    """
    state.check()
    present = {i.profile for i in state.layout.instances}
    matter = [p.name for p in state.geometry.profiles if p.name in profiles | present]
    pinned, ending = [], []
    for r in state.running:
        left_s = None if r.free_at_s is None else max(0.0, r.free_at_s - now_s)
        if left_s is None or left_s > horizon_s:
            pinned.append(r.instance)
        else:
            steps = -(-int(left_s * 1000 + 0.999) // ready_step_ms)
            ending.append((r.instance, max(1, steps) * ready_step_ms))
    return Standing(
        geometry=state.geometry.restricted(matter),
        layout=state.layout,
        pinned=Layout(tuple(sorted(pinned))),
        ending=tuple(sorted(ending)),
        frozen=frozen,
    )


def offers(stand: Standing) -> tuple[Offer, ...]:
    """Every offer of this GPU, one for each choice of slots (the one with the fewest re-cuts).

    In the order of the layouts. Any part of an offer's slots is an offer, too.
    """
    if stand.frozen:
        return tuple(_subsets(stand))
    states = enumerate_states(stand.geometry)
    pinned, current = states.coded(stand.pinned), states.coded(stand.layout)
    taken = states.counts(stand.pinned)
    kinds = [Kind(stand.geometry.gpu, p.name) for p in stand.geometry.profiles]
    best: dict[Counts, Offer] = {}
    for code, layout, counts in states.codes:
        if code & pinned != pinned:
            continue
        recuts = (code ^ current).bit_count()
        if stand.ending:
            key = _by_readiness(stand, layout)
        else:
            key = tuple(
                (kind, n - m) for kind, n, m in zip(kinds, counts, taken, strict=True) if n > m
            )
        known = best.get(key)
        if known is None or recuts < known.recuts:
            best[key] = Offer(layout, recuts, key)
    return tuple(best.values())


def _by_readiness(stand: Standing, layout: Layout) -> Counts:
    gpu = stand.geometry.gpu
    kinds = Counter(Kind(gpu, s.instance.profile, s.ready_ms) for s in stand.slots(layout))
    return tuple(sorted(kinds.items()))


def _subsets(stand: Standing) -> Iterator[Offer]:
    """A frozen GPU offers what it has, all or in part, without touching anything."""
    whole = _by_readiness(stand, stand.layout)
    for numbers in product(*(range(n + 1) for _, n in whole)):
        part = tuple((k, n) for (k, _), n in zip(whole, numbers, strict=True) if n)
        yield Offer(stand.layout, 0, part)
