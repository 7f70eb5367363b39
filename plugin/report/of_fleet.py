"""GPUs slice by slice: as they stand, beside a plan for them, and the steps between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from berth.pilot.errors import UsageError
from berth.pilot.units import counted
from berth.plugin.pictures.charts import Block, Lane, Use, fleet
from berth.plugin.report.parts import Part, Report, drawn, text_table
from berth.policies.mig import GpuState
from berth.policies.mig.documents import GpuPlanEntry, PlanDocument, digest
from berth.policies.mig.layout import Instance, Layout

_STEP = ("Step", "GPU", "Action", "Instance", "After the end of")
_STATES = {Use.FREE: "free", Use.BUSY: "busy", Use.NEW: "new", Use.GONE: "goes"}


def fleet_report(states: Sequence[GpuState], plan: PlanDocument | None) -> Report:
    """Of a fleet; with its plan. Raises UsageError for the plan of another fleet."""
    busy = sum(len(one.busy.instances) for one in states)
    slices = sum(len(one.layout.instances) for one in states if one.mig_enabled)
    lead = f"{counted(len(states), 'GPU')} in {slices} slices, {busy} of them busy."
    if plan is None:
        return Report("GPUs", lead, [_now(states)])
    if plan.fleet_digest != digest(states):
        raise UsageError(
            "the plan was made for the GPUs as they were cut before",
            hint="plan again: berth mig plan --fleet FILE --jobs FILE --output PLAN",
        )
    return Report("GPUs and the plan for them", lead, [*planned(states, plan)])


def planned(states: Sequence[GpuState], plan: PlanDocument) -> list[Part]:
    """The plan beside the fleet, the steps between, and what is left over."""
    by_name = {one.name: one for one in plan.gpus}
    lanes, rows = [], []
    for state in states:
        after = by_name.get(state.gpu)
        lanes.append(_lane(state, f"{state.gpu} now", after))
        if after is None:
            continue
        lanes.append(_then(state, after))
        jobs = ", ".join(f"{p.job} on {p.instance}" for p in after.placements) or "-"
        rows.append((
            after.name, after.model, " ".join(after.before) or "-", " ".join(after.after) or "-",
            jobs, after.why,
        ))  # fmt: skip
    steps = [
        (str(n), step.gpu, step.action, step.instance, ", ".join(step.after_end_of) or "-")
        for n, step in enumerate(plan.steps, 1)
    ]
    left = [(str(one.count), one.job, one.reason) for one in plan.unplaced]
    return [
        Part(
            "Now and by the plan",
            plan.summary,
            drawn("Each GPU's slices now and by the plan", lambda: fleet(lanes)),
            [text_table("GPUs", ("GPU", "Model", "Now", "Then", "Jobs", "Why"), rows)],
        ),
        Part(
            "Steps",
            () if steps else ["Nothing has to be cut anew."],
            tables=[text_table("In this order", _STEP, steps)] if steps else (),
        ),
        *([Part("Not placed", tables=[text_table("Jobs", ("Jobs", "Name", "Why"), left)])]
          if left else []),
    ]  # fmt: skip


def _now(states: Sequence[GpuState]) -> Part:
    rows = [
        (
            state.gpu,
            state.geometry.gpu,
            block.name,
            str(block.begin),
            _STATES[block.use],
        )
        for state in states
        for block in _lane(state, state.gpu, None).blocks
    ] + [(s.gpu, s.geometry.gpu, "MIG is off", "-", "-") for s in states if not s.mig_enabled]
    return Part(
        "The fleet",
        pictures=drawn(
            "Each GPU's slices, free and busy",
            lambda: fleet([_lane(state, state.gpu, None) for state in states]),
        ),
        tables=[text_table("Slices", ("GPU", "Model", "Slice", "Starts at", "State"), rows)],
    )


def _lane(state: GpuState, name: str, after: GpuPlanEntry | None) -> Lane:
    busy = set(state.busy.instances)
    stays = None if after is None else set(after.after)

    def use(instance: Instance) -> Use:
        if instance in busy:
            return Use.BUSY
        return Use.FREE if stays is None or str(instance) in stays else Use.GONE

    shown = state.layout.instances if state.mig_enabled else ()
    return _lane_of(state, name, shown, use)


def _then(state: GpuState, after: GpuPlanEntry) -> Lane:
    used = {p.instance for p in after.placements}.union(map(str, state.busy.instances))

    def use(instance: Instance) -> Use:
        if str(instance) not in after.before:
            return Use.NEW
        return Use.BUSY if str(instance) in used else Use.FREE

    return _lane_of(state, "then", Layout.parse(" ".join(after.after)).instances, use)


def _lane_of(
    state: GpuState, name: str, instances: Iterable[Instance], use: Callable[[Instance], Use]
) -> Lane:
    profile = state.geometry.profile
    return Lane(
        name,
        max(p.memory_slices for p in state.geometry.profiles),
        [
            Block(one.profile, one.start, profile(one.profile).memory_slices, use(one))
            for one in instances
        ],
    )
