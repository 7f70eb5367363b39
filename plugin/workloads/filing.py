"""Stores workloads with their forecasts, so that the submit filter need not predict.

Profiles of one program on several numbers of nodes are combined into one workload.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from berth.pilot.documents import read_json, to_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.pilot.progress import steps
from berth.plugin.store import ForecastRecord, Store, WorkloadRecord
from berth.plugin.workloads.names import LONGEST
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import Workload, parse_workload, workload_of


def add_workload(
    store: Store,
    workload: Workload,
    *,
    forecaster: Forecaster,
    platforms: Mapping[str, Platform],
    owner: str,
    reference: str | None = None,
    replace: bool = False,
) -> Forecast:
    """Store a workload and its forecast, and return the forecast. Nothing is stored if no forecast
    is possible.

    Raises UsageError for a workload that cannot be predicted, or whose name another workload has,
    and StoreError.
    """
    check_name(workload.name)
    own_forecast = forecaster.forecast(workload, platforms, reference=reference)
    forecast = dataclasses.replace(own_forecast, workload=workload.name)
    record = WorkloadRecord(
        workload.name,
        workload.kind,
        workload.digest,
        to_json(workload.document),
        owner,
        time.time(),
    )
    store.add(record, replace=replace)
    put_forecast(store, forecast)
    return forecast


def check_name(name: str) -> None:
    """Raises UsageError for a workload name that a job could not refer to."""
    if len(name) > LONGEST:
        raise UsageError(f"{name[:40]}...: a workload's name is at most {LONGEST} characters")
    if name.rpartition("/")[2] == "off":
        raise UsageError("a workload cannot be named 'off'", hint="berth:off is how jobs opt out")


def refresh(
    store: Store,
    names: Iterable[str],
    *,
    forecaster: Forecaster,
    platforms: Mapping[str, Platform],
    reference: str | None = None,
) -> list[Forecast]:
    """Predict stored workloads again, after a change of bundle or platforms, and return the
    forecasts."""
    forecasts = []
    for name in steps("workloads predicted", list(names)):
        workload = workload_in(store, stored(store, name))
        own_forecast = forecaster.forecast(workload, platforms, reference=reference)
        forecast = dataclasses.replace(own_forecast, workload=name)
        put_forecast(store, forecast)
        forecasts.append(forecast)
    return forecasts


def workload_in(store: WorkloadReader, record: WorkloadRecord) -> Workload:
    """Return the workload that a record holds, under the record's name. Raises DocumentError."""
    workload = parse_workload(record.document, source=f"{store.name}: workload {record.name}")
    return dataclasses.replace(workload, name=record.name)


def stored_profiles(store: Store) -> list[Profile]:
    """Return the Profiles of all stored workloads that are programs."""
    documents = (workload_in(store, record).document for record in store.workloads())
    return [document for document in documents if isinstance(document, Profile)]


class WorkloadReader(Protocol):
    """A store from which one workload can be read by name."""

    @property
    def name(self) -> str:
        """Return the store's name for messages."""
        ...

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return the workload of that name, or None."""
        ...


def stored(store: WorkloadReader, name: str) -> WorkloadRecord:
    """Return the stored workload of that name. Raises UsageError where there is none."""
    record = store.workload(name)
    if record is None:
        raise UsageError(
            f"no workload named {name!r} is in {store.name}", hint="see: berth workload list"
        )
    return record


class WorkloadLister(WorkloadReader, Protocol):
    """A store that can also list all workloads."""

    def workloads(self) -> list[WorkloadRecord]:
        """Return all workloads that the user of this store may see, by name."""
        ...


def stored_for(store: WorkloadLister, name: str, user: str) -> WorkloadRecord:
    """Return the workload that a user means by a name: the user's own, else the shared one, else
    the only workload of that name of any user. Raises UsageError that lists several."""
    own = None if "/" in name else store.workload(f"{user}/{name}")
    record = own or store.workload(name)
    if record is not None:
        return record
    same = others_of_name(store, name)
    if len(same) > 1:
        raise UsageError(
            f"several users' workloads are called {name!r} in {store.name}",
            hint=f"name one of {', '.join(record_of_name.name for record_of_name in same)}",
        )
    return same[0] if same else stored(store, name)


def others_of_name(store: WorkloadLister, name: str) -> list[WorkloadRecord]:
    """Return all users' own workloads that are called ``name``, without the owner's prefix."""
    if "/" in name:
        return []
    return [record for record in store.workloads() if record.name.endswith(f"/{name}")]


def put_forecast(store: Store, forecast: Forecast) -> None:
    """Store the forecast as the newest of its workload."""
    store.put_forecast(
        ForecastRecord(forecast.workload, forecast.bundle, forecast.to_json(), time.time())
    )


def with_nodes(
    workload: Workload, others: Sequence[Path], *, all_of_them: bool = False
) -> tuple[Workload, tuple[Path, ...]]:
    """Return the workload combined with profiles of the same program on other numbers of nodes, and
    the paths that were not combined.

    Profiles of other platforms are not combined; with ``all_of_them`` every profile must be one of
    the same program and platform. Raises UsageError for profiles that do not belong together, and
    DocumentError.
    """
    measured = workload.document
    if not others:
        return workload, ()
    if not isinstance(measured, Profile):
        if not all_of_them:
            return workload, tuple(others)
        raise UsageError(
            f"{others[0]}: several files are the profiles of one program on several numbers of "
            f"nodes, and {workload.name!r} is no profile"
        )
    profiles = {path: read_json(path, Profile) for path in others}
    same = [p for p in profiles.values() if all_of_them or _on_other_nodes(measured, p)]
    if not same:
        return workload, tuple(others)
    from berth.predictor.families.program.node_runs import together  # noqa: PLC0415 - loads numpy

    combined = workload_of(together([measured, *same]).model_copy(update={"name": measured.name}))
    left_over = tuple(path for path, profile in profiles.items() if profile not in same)
    return dataclasses.replace(combined, name=workload.name), left_over


def _on_other_nodes(measured: Profile, other: Profile) -> bool:
    nodes = (measured.runs_on.nodes or 1, other.runs_on.nodes or 1)
    return other.platform == measured.platform and nodes[0] != nodes[1]
