"""The MIG planner's problem in integers: possible layouts of GPUs, job types, values of their
pairs.

A GPU can get any layout that leaves running instances where they are. Its slots are counted by
kind (GPU model, profile, time until ready). Running instances that will not end within the horizon
are part of every layout and offer no slot. Throughput and energy are integers in millionths of the
largest value in the problem, and times are in milliseconds, so that sums, comparisons and bounds
are exact; differences below one millionth are lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from berth.pilot.errors import UsageError
from berth.policies.mig.demands import Demand, DemandType, SliceOption, grouped
from berth.policies.mig.layout import GpuInstance, GpuState, Layout, enumerate_states, exclude
from berth.policies.mig.plan import PlanObjective
from berth.predictor.hardware.mig.geometry import Geometry


@dataclass(frozen=True, slots=True, order=True)
class SlotKind:
    """A kind of slots that are interchangeable for every job: GPU model, profile and time until
    ready."""

    gpu: str
    profile: str
    ready_ms: int = 0
    """Milliseconds from now until such a slot can be used, rounded up to the planner's time step.
    """


@dataclass(frozen=True, slots=True)
class Slot:
    """An instance of a target layout that can take one job."""

    instance: GpuInstance
    ready_ms: int
    created: bool
    """True: the instance must be created; False: it exists already."""


Counts = tuple[tuple[SlotKind, int], ...]
"""Numbers of slots of each kind, sorted by kind; kinds with no slot are left out."""


@dataclass(frozen=True, slots=True)
class LayoutOption:
    """One layout that a GPU could get, with the slots that the layout offers."""

    layout: Layout
    recuts: int
    """Instances destroyed plus instances created to reach this layout."""
    counts: Counts


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU's state as the planner needs it; equal for GPUs that can be planned together."""

    geometry: Geometry
    """The GPU's geometry, restricted to profiles that jobs can use or that exist on the GPU."""
    layout: Layout
    pinned: Layout
    """Running instances whose work ends after the horizon or at an unknown time."""
    ending: tuple[tuple[GpuInstance, int], ...]
    """Running instances that end within the horizon, with milliseconds until the end."""
    frozen: bool = False
    """True: the GPU's layout must not change."""

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for GPUs with the same possible layouts."""
        g = self.geometry
        return (g.gpu, g.profiles, self.layout, self.pinned, self.ending, self.frozen)

    def slots(self, target: Layout) -> tuple[Slot, ...]:
        """Return the slots of a target layout, ordered by starting memory slice."""
        return tuple(
            Slot(i, self._ready_ms(i, target), i not in self.layout.instances)
            for i in target.instances
            if i not in self.pinned.instances
        )

    def _ready_ms(self, instance: GpuInstance, target: Layout) -> int:
        waits = [0]
        for old, ends_ms in self.ending:
            if old == instance or (
                old not in target.instances and exclude(self.geometry, old, instance)
            ):
                waits.append(ends_ms)
        return max(waits)


def view_of(
    state: GpuState,
    profiles: frozenset[str],
    *,
    now_s: float = 0.0,
    horizon_s: float = 0.0,
    frozen: bool = False,
    ready_step_ms: int = 1,
) -> GpuView:
    """Return the planner's view of a GPU at ``now_s`` (Unix time), restricted to useful profiles.

    ``profiles``: those that some job can use. Work that ends within ``horizon_s`` seconds may be
    waited for. The times until ready are rounded up to multiples of ``ready_step_ms``, so that more
    GPUs have equal views.
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
    return GpuView(
        geometry=state.geometry.restricted(matter),
        layout=state.layout,
        pinned=Layout(tuple(sorted(pinned))),
        ending=tuple(sorted(ending)),
        frozen=frozen,
    )


def layout_options(view: GpuView) -> tuple[LayoutOption, ...]:
    """Return the layouts that a GPU could get: for each set of slots, the one that changes it
    least.

    They are in the order of the layouts. Any subset of an option's slots is an option, too.
    """
    if view.frozen:
        return tuple(_subsets(view))
    states = enumerate_states(view.geometry)
    pinned, current = states.coded(view.pinned), states.coded(view.layout)
    taken = states.counts(view.pinned)
    kinds = [SlotKind(view.geometry.gpu, p.name) for p in view.geometry.profiles]
    best: dict[Counts, LayoutOption] = {}
    for code, layout, counts in states.codes:
        if code & pinned != pinned:
            continue
        recuts = (code ^ current).bit_count()
        if view.ending:
            key = _by_readiness(view, layout)
        else:
            key = tuple(
                (kind, n - m) for kind, n, m in zip(kinds, counts, taken, strict=True) if n > m
            )
        known = best.get(key)
        if known is None or recuts < known.recuts:
            best[key] = LayoutOption(layout, recuts, key)
    return tuple(best.values())


def _by_readiness(view: GpuView, layout: Layout) -> Counts:
    gpu = view.geometry.gpu
    kinds = Counter(SlotKind(gpu, s.instance.profile, s.ready_ms) for s in view.slots(layout))
    return tuple(sorted(kinds.items()))


def _subsets(view: GpuView) -> Iterator[LayoutOption]:
    """Yield the options of a frozen GPU: its present layout with each subset of its slots
    offered."""
    whole = _by_readiness(view, view.layout)
    for numbers in product(*(range(n + 1) for _, n in whole)):
        part = tuple((k, n) for (k, _), n in zip(whole, numbers, strict=True) if n)
        yield LayoutOption(view.layout, 0, part)


RESOLUTION = 1_000_000
READY_CLASSES = 8
"""Number of time steps that the horizon is divided into when several GPUs are planned together."""

_NEEDS = {
    PlanObjective.THROUGHPUT: "throughput",
    PlanObjective.MAKESPAN: "runtime_s",
    PlanObjective.ENERGY: "energy_j",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """The values of a job of one type on a slot of one kind, in the planner's integers."""

    throughput: int
    energy: int
    finish_ms: int


@dataclass(frozen=True, slots=True)
class GpuGroup:
    """GPUs with equal views, which are planned together."""

    view: GpuView
    members: tuple[GpuState, ...]
    options: tuple[LayoutOption, ...]
    is_busy: bool
    """True where each GPU of the group has running work."""


@dataclass(frozen=True)
class PlanningProblem:
    """The jobs and GPUs of a planning run in the integer form that every planner takes."""

    types: tuple[DemandType, ...]
    groups: tuple[GpuGroup, ...]
    edges: tuple[Mapping[SlotKind, Edge], ...]
    """For each job type, its values on each kind of slot that it may use."""
    order: tuple[PlanObjective, ...]
    priorities: tuple[int, ...]
    """The distinct priorities of the jobs, highest first."""
    throughput_unit: float
    energy_unit: float

    def without(self, limit_ms: int) -> PlanningProblem:
        """Return the problem in which no job may end later than ``limit_ms`` from now."""
        edges_left = tuple(
            {kind: e for kind, e in edges.items() if e.finish_ms <= limit_ms}
            for edges in self.edges
        )
        return replace(self, edges=edges_left)


def build(
    states: Sequence[GpuState],
    demands: Iterable[Demand],
    order: tuple[PlanObjective, ...],
    *,
    now_s: float = 0.0,
    horizon_s: float = 0.0,
    recut: bool = True,
) -> PlanningProblem:
    """Return the jobs and GPUs as a planning problem.

    ``horizon_s``: the planner may wait for running instances known to end within this many seconds.
    ``recut=False``: every layout stays as it is. Raises UsageError where an objective needs a
    prediction that a job's slice lacks.
    """
    types = grouped(demands)
    _check_predictions(types, order)
    single = len(states) == 1
    step_ms = 1 if single else max(1, int(horizon_s * 1000) // READY_CLASSES)
    wanted: dict[str, frozenset[str]] = {}
    gathered: dict[tuple[object, ...], tuple[GpuView, list[GpuState]]] = {}
    for state in sorted(states, key=lambda s: s.gpu):
        name = state.geometry.gpu
        if name not in wanted:
            wanted[name] = _profiles(state.geometry, types)
        view = view_of(
            state, wanted[name], now_s=now_s, horizon_s=horizon_s,
            frozen=not recut or not state.mig_enabled, ready_step_ms=step_ms,
        )  # fmt: skip
        gathered.setdefault(view.key, (view, []))[1].append(state)
    groups = tuple(
        GpuGroup(
            view, tuple(members), layout_options(view), bool(view.pinned.instances or view.ending)
        )
        for view, members in gathered.values()
    )
    return _with_values(types, groups, order)


def _profiles(geometry: Geometry, types: Sequence[DemandType]) -> frozenset[str]:
    return frozenset(
        p.name
        for p in geometry.profiles
        if any(t.members[0].on(geometry, p.name) is not None for t in types)
    )


def _check_predictions(types: Sequence[DemandType], order: Sequence[PlanObjective]) -> None:
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
    types: tuple[DemandType, ...], groups: tuple[GpuGroup, ...], order: tuple[PlanObjective, ...]
) -> PlanningProblem:
    geometries = {g.view.geometry.gpu: g.view.geometry for g in groups}
    kinds = sorted({kind for g in groups for o in g.options for kind, _ in o.counts})
    options_by_type: list[dict[SlotKind, SliceOption]] = []
    for t in types:
        options: dict[SlotKind, SliceOption] = {}
        for kind in kinds:
            option = t.members[0].on(geometries[kind.gpu], kind.profile)
            if option is not None:
                options[kind] = option
        options_by_type.append(options)
    all_options = [option for options in options_by_type for option in options.values()]
    throughput_unit = (
        max((o.throughput or 0.0 for o in all_options), default=0.0) / RESOLUTION or 1.0
    )
    energy_unit = max((o.energy_j or 0.0 for o in all_options), default=0.0) / RESOLUTION or 1.0
    edges = tuple(
        {
            kind: Edge(
                throughput=round((o.throughput or 0.0) / throughput_unit),
                energy=round((o.energy_j or 0.0) / energy_unit),
                finish_ms=kind.ready_ms + round((o.runtime_s or 0.0) * 1000),
            )
            for kind, o in options.items()
        }
        for options in options_by_type
    )
    priorities = tuple(sorted({t.priority for t in types}, reverse=True))
    return PlanningProblem(types, groups, edges, order, priorities, throughput_unit, energy_unit)
