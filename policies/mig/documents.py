"""Documents of the MIG planner: the fleet's present state, the jobs to place, and the plan.

Instances are written ``PROFILE@START``, for example ``3g.20gb@4``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from berth.pilot.documents import Document, read_json_or_toml
from berth.pilot.errors import DocumentError, UsageError
from berth.policies.digest import of_text
from berth.policies.mig.demands import Demand, SliceOption
from berth.policies.mig.layout import GpuState, Layout, Running
from berth.policies.mig.plan import MigPlan, steps
from berth.policies.mig.solution import gpu_sentence, plan_sentences
from berth.predictor.hardware.mig.slices import lookup


class RunningEntry(Document):
    """A MIG instance with work on it; ``free_at_s``: expected end of the work (Unix time), if
    known."""

    instance: str
    free_at_s: float | None = None
    uuid: str | None = None


class GpuEntry(Document):
    """One GPU of the fleet; ``NODE/INDEX`` is the recommended form of ``name``."""

    name: str = Field(min_length=1)
    model: str
    uuid: str | None = None
    layout: tuple[str, ...] = ()
    running: tuple[RunningEntry, ...] = ()
    mig_enabled: bool = True


class FleetDocument(Document):
    """The GPUs of a fleet and their layouts at ``as_of_s`` (Unix time)."""

    schema_: Literal["berth.mig-fleet/1"] = Field("berth.mig-fleet/1", alias="schema")
    as_of_s: float = 0.0
    gpus: tuple[GpuEntry, ...] = Field(min_length=1)


class SliceEntry(Document):
    """A slice profile that a job may run on, with the predictions there that the objectives
    need."""

    profile: str
    gpu: str | None = None
    throughput: float | None = Field(None, ge=0)
    runtime_s: float | None = Field(None, ge=0)
    energy_j: float | None = Field(None, ge=0)


class JobEntry(Document):
    """``count`` equal jobs, with either the slices that each may use or a workload to predict them
    from."""

    name: str | None = Field(None, min_length=1)
    """The job's name; required without ``workload``, whose name is the default otherwise."""
    count: int = Field(1, ge=1, le=1_000_000)
    priority: int = Field(0, ge=-(2**31), lt=2**31)
    slices: tuple[SliceEntry, ...] = ()
    workload: str | None = Field(None, min_length=1, max_length=4096)
    """Name of a workload in the store, or the path of a workload file."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if bool(self.slices) == (self.workload is not None):
            raise ValueError("give either slices or workload")
        if self.name is None and self.workload is None:
            raise ValueError("name is missing")
        return self


class JobsDocument(Document):
    """The jobs that the MIG planner is to place."""

    schema_: Literal["berth.mig-jobs/1"] = Field("berth.mig-jobs/1", alias="schema")
    jobs: tuple[JobEntry, ...]


class PlacementEntry(Document):
    """One job on one instance of the target layout; times are seconds after the plan's
    ``as_of_s``."""

    job: str
    instance: str
    ready_s: float
    finish_s: float | None


class GpuPlanEntry(Document):
    """One GPU's layout before and after the plan, with the jobs placed on it."""

    name: str
    model: str
    uuid: str | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    why: str
    placements: tuple[PlacementEntry, ...]


class StepEntry(Document):
    """One step of a plan: an instance to destroy or create, in the order of execution.

    ``after_end_of``: running instances whose work must end first.
    """

    gpu: str
    action: Literal["destroy", "create"]
    instance: str
    after_end_of: tuple[str, ...] = ()


class UnplacedEntry(Document):
    """Equal jobs that got no slice in the plan, with the reason."""

    job: str
    count: int
    reason: str


class ReachedEntry(Document):
    """The value that a plan reaches for one objective, and the bound on it if one was computed."""

    objective: str
    priority: int | None
    value: float
    bound: float | None


class PlanDocument(Document):
    """A MIG plan; ``fleet_digest`` identifies the fleet state that it was computed from."""

    schema_: Literal["berth.mig-plan/1"] = Field("berth.mig-plan/1", alias="schema")
    fleet_digest: str
    as_of_s: float
    solver: str
    reached: tuple[ReachedEntry, ...]
    gpus: tuple[GpuPlanEntry, ...]
    steps: tuple[StepEntry, ...]
    unplaced: tuple[UnplacedEntry, ...]
    summary: tuple[str, ...]


def read_fleet(paths: Sequence[Path]) -> tuple[FleetDocument, tuple[GpuState, ...]]:
    """Return the GPUs of all these fleet files as one fleet, and their states.

    Raises DocumentError for a broken file.
    """
    fleets = [read_json_or_toml(path, FleetDocument) for path in paths]
    states = tuple(
        state
        for path, fleet in zip(paths, fleets, strict=True)
        for state in states_of(fleet, source=path)
    )
    gpus = tuple(gpu for fleet in fleets for gpu in fleet.gpus)
    return FleetDocument(as_of_s=max(fleet.as_of_s for fleet in fleets), gpus=gpus), states


def states_of(fleet: FleetDocument, *, source: str | Path) -> tuple[GpuState, ...]:
    """Return the states of the fleet's GPUs, in the order of the document, for the planner.

    Raises DocumentError naming the entry whose layout or running instances are impossible.
    """
    states = []
    for number, entry in enumerate(fleet.gpus):
        try:
            geometry = lookup(entry.model)
            state = GpuState(
                gpu=entry.name,
                geometry=geometry,
                layout=Layout.parse(" ".join(entry.layout)).spelled(geometry),
                running=tuple(
                    Running(
                        Layout.parse(r.instance).spelled(geometry).instances[0], r.free_at_s, r.uuid
                    )
                    for r in entry.running
                ),
                mig_enabled=entry.mig_enabled,
            )
            states.append(state.check())
        except (UsageError, IndexError) as error:
            raise _at(error, source, f"gpus.{number}") from None
    return tuple(states)


def demand_of(job: JobEntry) -> Demand:
    """Return the planner's demand for a job entry that lists its slices (no ``workload``)."""
    return Demand(
        name=job.name or "",
        options=tuple(
            SliceOption(s.profile, s.gpu, s.throughput, s.runtime_s, s.energy_j) for s in job.slices
        ),
        count=job.count,
        priority=job.priority,
    )


def check_profiles(jobs: JobsDocument, states: Sequence[GpuState], *, source: str | Path) -> None:
    """Check that each slice of each job exists on the GPU model it names, or on some GPU of the
    fleet.

    Raises DocumentError naming the slice, so that a misspelt profile is an error and not an
    unplaced job.
    """
    known = {p.name for s in states for p in s.geometry.profiles}
    for n, job in enumerate(jobs.jobs):
        for m, entry in enumerate(job.slices):
            key = f"jobs.{n}.slices.{m}"
            try:
                if entry.gpu is not None:
                    lookup(entry.gpu).profile(entry.profile)
                elif not any(state.geometry.named(entry.profile) for state in states):
                    raise UsageError(
                        f"no GPU of the fleet has a MIG profile {entry.profile!r}",
                        hint=f"they have {', '.join(sorted(known))}",
                    )
            except UsageError as error:
                raise _at(error, source, key) from None


def _at(error: Exception, source: str | Path, key: str) -> DocumentError:
    if isinstance(error, UsageError):
        return DocumentError(source, error.message, key=key, hint=error.hint)
    return DocumentError(source, "names a running instance without saying which", key=key)


def digest(states: Sequence[GpuState]) -> str:
    """Return a digest of the fleet's GPU names, models, layouts and MIG modes.

    A plan whose digest differs from the fleet's is out of date.
    """
    return of_text(*sorted(f"{s.gpu} {s.geometry.gpu} {s.layout} {s.mig_enabled}" for s in states))


def fleet_document(
    states: Sequence[GpuState], *, as_of_s: float = 0.0, uuids: Mapping[str, str] = {}
) -> FleetDocument:
    """Return the GPU states (for example as NVML reads them on this machine) as a fleet document;
    ``uuids``: the GPUs' UUIDs by name."""
    return FleetDocument(
        as_of_s=as_of_s,
        gpus=tuple(
            GpuEntry(
                name=s.gpu,
                model=s.geometry.gpu,
                uuid=uuids.get(s.gpu),
                layout=_words(s.layout),
                running=tuple(
                    RunningEntry(instance=str(r.instance), free_at_s=r.free_at_s, uuid=r.uuid)
                    for r in s.running
                ),
                mig_enabled=s.mig_enabled,
            )
            for s in states
        ),
    )


def plan_document(plan: MigPlan, fleet: FleetDocument) -> PlanDocument:
    """Return the plan as a document, without GPUs that have MIG off; ``fleet`` gives the GPUs'
    UUIDs and the time."""
    uuids = {entry.name: entry.uuid for entry in fleet.gpus}
    return PlanDocument(
        fleet_digest=digest([g.state for g in plan.gpus]),
        as_of_s=fleet.as_of_s,
        solver=plan.solver,
        reached=tuple(
            ReachedEntry(objective=r.objective, priority=r.priority, value=r.value, bound=r.bound)
            for r in plan.reached
        ),
        gpus=tuple(
            GpuPlanEntry(
                name=g.state.gpu,
                model=g.state.geometry.gpu,
                uuid=uuids.get(g.state.gpu),
                before=_words(g.state.layout),
                after=_words(g.target),
                why=gpu_sentence(g),
                placements=tuple(
                    PlacementEntry(
                        job=p.job,
                        instance=str(p.instance),
                        ready_s=p.ready_s,
                        finish_s=p.finish_s,
                    )
                    for p in g.placements
                ),
            )
            for g in plan.gpus
            if g.state.mig_enabled
        ),
        steps=tuple(
            StepEntry(
                gpu=s.gpu,
                action=s.action.value,
                instance=str(s.instance),
                after_end_of=tuple(map(str, s.after_end_of)),
            )
            for s in steps(plan.gpus)
        ),
        unplaced=tuple(
            UnplacedEntry(job=u.job, count=u.count, reason=u.reason) for u in plan.unplaced
        ),
        summary=plan_sentences(plan),
    )


def _words(layout: Layout) -> tuple[str, ...]:
    return tuple(map(str, layout.instances))
