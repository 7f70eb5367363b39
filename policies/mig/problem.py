"""The planner's problem in whole numbers: kinds of slots, types of jobs, and what each pair gives.

Throughput and energy become integers in millionths of the largest value, times milliseconds, so
that sums, comparisons and bounds are exact; differences below a millionth are not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from berth.pilot.errors import UsageError
from berth.policies.mig.demands import Demand, DemandType, SliceOption, grouped
from berth.policies.mig.layout import GpuState, Instance, Layout, enumerate_states, exclude
from berth.policies.mig.plan import Objective
from berth.predictor.hardware.mig.geometry import Geometry

RESOLUTION = 1_000_000
READY_CLASSES = 8
"""Into how many classes the horizon is divided when many GPUs are planned together."""

_NEEDS = {
    Objective.THROUGHPUT: "throughput",
    Objective.MAKESPAN: "runtime_s",
    Objective.ENERGY: "energy_j",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """What a job of one type gives on a slot of one kind."""

    throughput: int
    energy: int
    finish_ms: int


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs that can be planned alike."""

    stand: Standing
    members: tuple[GpuState, ...]
    offers: tuple[Offer, ...]
    is_busy: bool
    """True where something runs on each of them that stays."""


@dataclass(frozen=True)
class Problem:
    """Demands and fleet, ready for any of the planners."""

    types: tuple[DemandType, ...]
    groups: tuple[Group, ...]
    edges: tuple[Mapping[Kind, Edge], ...]
    """Of each type, by kind of slot."""
    order: tuple[Objective, ...]
    priorities: tuple[int, ...]
    """The distinct ones, highest first."""
    throughput_unit: float
    energy_unit: float

    def without(self, limit_ms: int) -> Problem:
        """The same where no job may end later than that."""
        kept = tuple(
            {kind: e for kind, e in edges.items() if e.finish_ms <= limit_ms}
            for edges in self.edges
        )
        return replace(self, edges=kept)


def build(
    states: Sequence[GpuState],
    demands: Iterable[Demand],
    order: tuple[Objective, ...],
    *,
    now_s: float = 0.0,
    horizon_s: float = 0.0,
    recut: bool = True,
) -> Problem:
    """Demands and GPUs as a Problem.

    ``horizon_s``: running instances known to end within it may be waited for. ``recut=False``:
    every layout stays as it is. Raises UsageError where an objective needs a prediction that an
    option lacks.
    """
    types = grouped(demands)
    _check_predictions(types, order)
    single = len(states) == 1
    step_ms = 1 if single else max(1, int(horizon_s * 1000) // READY_CLASSES)
    wanted: dict[str, frozenset[str]] = {}
    gathered: dict[tuple[object, ...], tuple[Standing, list[GpuState]]] = {}
    for state in sorted(states, key=lambda s: s.gpu):
        name = state.geometry.gpu
        if name not in wanted:
            wanted[name] = _profiles(state.geometry, types)
        stand = standing(
            state, wanted[name], now_s=now_s, horizon_s=horizon_s,
            frozen=not recut or not state.mig_enabled, ready_step_ms=step_ms,
        )  # fmt: skip
        gathered.setdefault(stand.key, (stand, []))[1].append(state)
    groups = tuple(
        Group(stand, tuple(members), offers(stand), bool(stand.pinned.instances or stand.ending))
        for stand, members in gathered.values()
    )
    return _with_values(types, groups, order)


def _profiles(geometry: Geometry, types: Sequence[DemandType]) -> frozenset[str]:
    return frozenset(
        p.name
        for p in geometry.profiles
        if any(t.members[0].on(geometry, p.name) is not None for t in types)
    )


def _check_predictions(types: Sequence[DemandType], order: Sequence[Objective]) -> None:
    for objective in order:
        field = _NEEDS.get(objective)
        for t in types if field else ():
            for option in t.options:
                if getattr(option, field or "") is None:
                    raise UsageError(
                        f"job {t.members[0].name}: {field} on {option.profile} is missing; "
                        f"the objective {objective.value} needs it",
                        hint="give it for each slice, or choose another objective",
                    )


def _with_values(
    types: tuple[DemandType, ...], groups: tuple[Group, ...], order: tuple[Objective, ...]
) -> Problem:
    geometries = {g.stand.geometry.gpu: g.stand.geometry for g in groups}
    kinds = sorted({kind for g in groups for o in g.offers for kind, _ in o.counts})
    found: list[dict[Kind, SliceOption]] = []
    for t in types:
        options: dict[Kind, SliceOption] = {}
        for kind in kinds:
            option = t.members[0].on(geometries[kind.gpu], kind.profile)
            if option is not None:
                options[kind] = option
        found.append(options)
    every = [option for options in found for option in options.values()]
    throughput_unit = max((o.throughput or 0.0 for o in every), default=0.0) / RESOLUTION or 1.0
    energy_unit = max((o.energy_j or 0.0 for o in every), default=0.0) / RESOLUTION or 1.0
    edges = tuple(
        {
            kind: Edge(
                throughput=round((o.throughput or 0.0) / throughput_unit),
                energy=round((o.energy_j or 0.0) / energy_unit),
                finish_ms=kind.ready_ms + round((o.runtime_s or 0.0) * 1000),
            )
            for kind, o in options.items()
        }
        for options in found
    )
    priorities = tuple(sorted({t.priority for t in types}, reverse=True))
    return Problem(types, groups, edges, order, priorities, throughput_unit, energy_unit)


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
