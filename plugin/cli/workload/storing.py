"""Puts a workload that a command has read into a store, with what is predicted of it."""

from __future__ import annotations

from pathlib import Path

from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.site import Site
from berth.plugin.store import Store
from berth.plugin.workloads.filing import add_workload
from berth.plugin.workloads.names import caller, owner_in
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import Workload


def store_workload(
    found: Workload,
    store: Store,
    bundles: tuple[Path, ...],
    site: Site | None,
    *,
    replace: bool,
) -> Forecast:
    """Its forecast, stored with it. Raises UsageError as ``add_workload``."""
    return add_workload(
        store,
        found,
        forecaster=forecaster_for(site, bundles),
        platforms=platforms_for(site),
        owner=owner_in(found.name) or caller(),
        reference=reference_of(site),
        replace=replace,
    )
