"""Predicts workloads of every kind on MIG slices, for the slice recommender and the planner."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.units import whole_number
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of, with_slices
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.workloads.files import MODEL_FILES, WorkloadOptions, read_file
from berth.plugin.workloads.filing import stored_for, workload_in
from berth.policies.mig.demands import Demand
from berth.policies.mig.documents import JobEntry, JobsDocument, demand_of
from berth.policies.mig.on_slices import OnSlices, of_forecast, of_slice_workload
from berth.policies.mig.recommend import demand_on, recommend
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload
from berth.predictor.families.slices.predictor import profiles_of
from berth.predictor.families.slices.slices_family import SlicesFamily
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.by_sheet import platform_of
from berth.predictor.hardware.catalogue import candidates, devices
from berth.predictor.hardware.mig.geometry import Geometry
from berth.predictor.hardware.mig.slices import lookup

FILE_ENDINGS = MODEL_FILES | {".json", ".toml"}
"""File name endings; an argument with one of them is taken for a file even where no such file
exists."""


@dataclass(frozen=True)
class SlicePredictions:
    """Predicts workloads on MIG slices; ``platforms`` includes the platforms of slices."""

    forecaster: Forecaster
    platforms: Mapping[str, Platform]
    reference: str | None = None

    def on_slices(self, workload: Workload, geometry: Geometry, called: str = "") -> OnSlices:
        """Return the workload's predictions on the slices of one GPU model.

        A GPU without a platform file is taken by its data sheet: the device ``called`` so, or the
        first with this geometry. Raises UsageError where nothing can be predicted for it there.
        """
        for family in self.forecaster.families(workload):
            document = workload.document
            if isinstance(family, SlicesFamily) and isinstance(document, SliceWorkload):
                return of_slice_workload(document, geometry, family.predictor)
        known = self.platforms
        if not profiles_of(geometry, known):
            named = (*candidates(called), *devices().values())
            sheet = platform_of(next(d for d in named if d.mig == geometry.gpu))
            known = {**known, **with_slices({sheet.name: sheet})}
        forecast = self.forecaster.forecast(
            workload,
            {name: known[name] for name in profiles_of(geometry, known)},
            known,
            reference=self.reference,
        )
        return of_forecast(forecast, workload, geometry, known)

    def demand(
        self, workload: Workload, gpus: Sequence[Geometry], *, count: int = 1, priority: int = 0
    ) -> Demand:
        """Return the slices of these GPU models that fit the workload, as a demand for the planner.

        GPU models without any prediction are left out. Raises UsageError where no model has one.
        """
        recommendations, problem = [], UsageError("there is no GPU model to place it on")
        for geometry in gpus:
            try:
                recommendations.append(recommend(self.on_slices(workload, geometry), geometry))
            except UsageError as error:
                problem = error
        if not recommendations:
            raise problem
        return demand_on(recommendations, count=count, priority=priority)


def predictions_for(site: Site | None) -> SlicePredictions:
    """Return the predictions with the site's platforms and bundles. Raises DocumentError and
    UsageError."""
    return SlicePredictions(forecaster_for(site), platforms_for(site), reference_of(site))


def workload_named(
    text: str, open_store: Callable[[], Store], options: WorkloadOptions | None = None
) -> Workload:
    """Return a workload: from a file of any kind, or from the store by the name that ``berth
    workload list`` prints (``alice/history-align``) or by a name of the user's own.

    Raises DocumentError for a broken file and UsageError for an unknown name.
    """
    path = Path(text)
    if path.exists() or path.suffix in FILE_ENDINGS:
        return read_file(path, options)
    if options is not None and options.stated():
        raise UsageError(
            f"there is no file {text!r}, and options are for files: what a workload of the store "
            "is stands there"
        )
    store = open_store()
    try:
        return workload_in(store, stored_for(store, text, getpass.getuser()))
    finally:
        store.close()


def demands_of(
    jobs: JobsDocument,
    gpus: Collection[str],
    predictions: Callable[[], SlicePredictions],
    open_store: Callable[[], Store],
) -> tuple[Demand, ...]:
    """Return the jobs as demands for the planner; a job that names a workload gets the slices that
    fit it.

    ``gpus``: the fleet's GPU models. Raises UsageError and DocumentError.
    """
    geometries = [lookup(name) for name in dict.fromkeys(gpus)]
    ready: SlicePredictions | None = None
    demands = []
    for job in jobs.jobs:
        if job.workload is None:
            demands.append(demand_of(job))
            continue
        ready = ready or predictions()
        workload = workload_named(job.workload, open_store)
        demand = ready.demand(workload, geometries, count=job.count, priority=job.priority)
        demands.append(replace(demand, name=job.name or demand.name))
    return tuple(demands)


def with_workloads(jobs: JobsDocument | None, named: Sequence[str]) -> JobsDocument:
    """Return ``jobs`` with a job added for each ``NAME`` or ``NAME=COUNT``. Raises UsageError."""
    entries = [] if jobs is None else list(jobs.jobs)
    for text in named:
        name, equals, count = text.rpartition("=")
        if not equals:
            name, count = text, "1"
        number = whole_number(count, 1_000_000)
        if not name or not number:
            raise UsageError(f"--workload {text!r} is not NAME, FILE, NAME=COUNT or FILE=COUNT")
        entries.append(JobEntry(workload=name, count=number))
    return JobsDocument(jobs=tuple(entries))
