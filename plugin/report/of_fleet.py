"""Reports a fleet's GPUs by MIG slice: now, as planned, and the steps between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from berth.pilot.errors import UsageError
from berth.pilot.units import counted
from berth.plugin.pictures.charts import Lane, SliceBlock, SliceUse, fleet
from berth.plugin.report.parts import Column, Part, Report, Table, drawn
from berth.policies.mig import GpuState
from berth.policies.mig.documents import (
    GpuPlanEntry,
    PlanDocument,
    StepEntry,
    UnplacedEntry,
    digest,
)
from berth.policies.mig.layout import GpuInstance, Layout

_USES = {SliceUse.FREE: "free", SliceUse.BUSY: "busy", SliceUse.NEW: "new", SliceUse.GONE: "goes"}


class Slice(NamedTuple):
    """A GPU's slice as it is now; a GPU without MIG instances is one slice without a position."""

    gpu: str
    model: str
    name: str
    begin: int | None
    use: str | None


SLICES: tuple[Column[Slice], ...] = (
    Column("GPU", "gpu", lambda row: row.gpu),
    Column("Model", "model", lambda row: row.model),
    Column("Slice", "slice", lambda row: row.name),
    Column("Starts at", "starts_at", lambda row: row.begin, kind=float),
    Column("State", "state", lambda row: row.use),
)
PLANNED: tuple[Column[GpuPlanEntry], ...] = (
    Column("GPU", "gpu", lambda gpu: gpu.name),
    Column("Model", "model", lambda gpu: gpu.model),
    Column("Now", "before", lambda gpu: " ".join(gpu.before)),
    Column("Then", "after", lambda gpu: " ".join(gpu.after)),
    Column(
        "Jobs", "jobs", lambda gpu: ", ".join(f"{p.job} on {p.instance}" for p in gpu.placements)
    ),
    Column("Why", "why", lambda gpu: gpu.why),
)
STEPS: tuple[Column[tuple[int, StepEntry]], ...] = (
    Column("Step", "step", lambda row: row[0], kind=float),
    Column("GPU", "gpu", lambda row: row[1].gpu),
    Column("Action", "action", lambda row: row[1].action),
    Column("Instance", "instance", lambda row: row[1].instance),
    Column("After the end of", "after_end_of", lambda row: ", ".join(row[1].after_end_of)),
)
UNPLACED: tuple[Column[UnplacedEntry], ...] = (
    Column("Jobs", "count", lambda jobs: jobs.count, kind=float),
    Column("Name", "job", lambda jobs: jobs.job),
    Column("Why", "reason", lambda jobs: jobs.reason),
)


def fleet_report(states: Sequence[GpuState], plan: PlanDocument | None) -> Report:
    """Return the report of a fleet, with its plan. Raises UsageError for the plan of another
    fleet."""
    busy = sum(len(state.busy.instances) for state in states)
    slices = sum(len(state.layout.instances) for state in states if state.mig_enabled)
    lead = f"{counted(len(states), 'GPU')} in {slices} slices, {busy} of them busy."
    if plan is None:
        return Report("GPUs", lead, [_now(states)])
    if plan.fleet_digest != digest(states):
        raise UsageError(
            "the plan was made for the GPUs as they were cut before",
            hint="plan again: berth mig plan --fleet FILE --jobs FILE --output PLAN",
        )
    return Report("GPUs and the plan for them", lead, plan_parts(plan, states))


def plan_parts(
    plan: PlanDocument, states: Sequence[GpuState] = (), *, most: int | None = None
) -> list[Part]:
    """Return the report sections of a MIG plan: the layouts before and after, the steps between
    them, and the jobs without a slice.

    ``states``: the fleet to draw; ``most``: maximum lines per table on a terminal.
    """
    by_name = {gpu.name: gpu for gpu in plan.gpus}
    lanes = []
    for state in states:
        after = by_name.get(state.gpu)
        lanes.append(_lane(state, f"{state.gpu} now", after))
        if after is not None:
            lanes.append(_then(state, after))
    steps = list(enumerate(plan.steps, 1))
    pictures = drawn("Each GPU's slices now and by the plan", lambda: fleet(lanes)) if lanes else ()
    parts = [
        Part(
            "Now and by the plan",
            plan.summary,
            pictures,
            [Table("GPUs", PLANNED, plan.gpus, most=most)],
        )
    ]
    if steps:
        parts.append(Part("Steps", tables=[Table("In this order", STEPS, steps, most=most)]))
    else:
        parts.append(Part("Steps", ["Nothing has to be cut anew."]))
    if plan.unplaced:
        table = Table("Jobs", UNPLACED, plan.unplaced, most=most)
        parts.append(Part("Not placed", tables=[table]))
    return parts


def _now(states: Sequence[GpuState]) -> Part:
    rows = [
        Slice(state.gpu, state.geometry.gpu, block.name, block.begin, _USES[block.use])
        for state in states
        for block in _lane(state, state.gpu, None).blocks
    ]
    rows += [
        Slice(state.gpu, state.geometry.gpu, "MIG is off", None, None)
        for state in states
        if not state.mig_enabled
    ]
    lanes = [_lane(state, state.gpu, None) for state in states]
    return Part(
        "The fleet",
        pictures=drawn("Each GPU's slices, free and busy", lambda: fleet(lanes)),
        tables=[Table("Slices", SLICES, rows)],
    )


def _lane(state: GpuState, name: str, after: GpuPlanEntry | None) -> Lane:
    busy = set(state.busy.instances)
    stays = None if after is None else set(after.after)

    def use(instance: GpuInstance) -> SliceUse:
        if instance in busy:
            return SliceUse.BUSY
        return SliceUse.FREE if stays is None or str(instance) in stays else SliceUse.GONE

    shown = state.layout.instances if state.mig_enabled else ()
    return _lane_of(state, name, shown, use)


def _then(state: GpuState, after: GpuPlanEntry) -> Lane:
    used = {p.instance for p in after.placements}.union(map(str, state.busy.instances))

    def use(instance: GpuInstance) -> SliceUse:
        if str(instance) not in after.before:
            return SliceUse.NEW
        return SliceUse.BUSY if str(instance) in used else SliceUse.FREE

    return _lane_of(state, "then", Layout.parse(" ".join(after.after)).instances, use)


def _lane_of(
    state: GpuState,
    name: str,
    instances: Iterable[GpuInstance],
    use: Callable[[GpuInstance], SliceUse],
) -> Lane:
    profile = state.geometry.profile
    return Lane(
        name,
        max(p.memory_slices for p in state.geometry.profiles),
        [
            SliceBlock(
                instance.profile,
                instance.start,
                profile(instance.profile).memory_slices,
                use(instance),
            )
            for instance in instances
        ],
    )
