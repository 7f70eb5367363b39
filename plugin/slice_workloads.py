"""Workloads of MIG slices in the store: what the recommender says of them, ready for a look-up.

They stand beside profiles under one kind of name; a job names either by ``--comment=berth:NAME``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.pilot.documents import parse_json, read_json, read_toml, to_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.plugin.store import ProfileRecord, Store
from berth.plugin.workloads import check_name, put_forecast
from berth.policies.mig import lookup
from berth.policies.mig.recommend import recommend
from berth.policies.mig.slice_forecast import WHOLE, forecast_of, workload_digest
from berth.predictor.core.forecast import Forecast
from berth.predictor.families.slices.bundle import DEFAULT_SLICES_BUNDLE, load
from berth.predictor.families.slices.predictor import SlicePredictor
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.slices import every_slice, slice_of


def read_workload(path: Path) -> SliceWorkload:
    """The workload in a JSON or TOML file. Raises DocumentError."""
    return (
        read_toml(path, SliceWorkload) if path.suffix == ".toml" else read_json(path, SliceWorkload)
    )


def slice_predictor(bundle: Path | None = None) -> SlicePredictor:
    """From a bundle's folder (default: the shipped one). Raises DocumentError."""
    return SlicePredictor(load(bundle or DEFAULT_SLICES_BUNDLE))


def add_workload(
    store: Store,
    workload: SliceWorkload,
    *,
    predictor: SlicePredictor,
    platforms: Mapping[str, Platform],
    owner: str,
    replace: bool = False,
) -> Forecast:
    """Store a workload and its forecast; nothing where no forecast can be made.

    Raises UsageError where it does not say how long a job takes, nothing can be predicted of it,
    or something else has its name, and StoreError.
    """
    check_name(workload.name)
    forecast = forecast_workload(workload, predictor, platforms)
    record = ProfileRecord(
        workload.name, workload_digest(workload), to_json(workload), owner, time.time()
    )
    store.add_profile(record, replace=replace)
    put_forecast(store, forecast)
    return forecast


def refresh_workloads(
    store: Store,
    records: Iterable[ProfileRecord],
    *,
    predictor: SlicePredictor,
    platforms: Mapping[str, Platform],
) -> None:
    """Make the forecasts of stored workloads again (a new bundle, new platforms)."""
    for record in records:
        workload = parse_json(record.document, SliceWorkload, source=f"profile {record.name}")
        put_forecast(store, forecast_workload(workload, predictor, platforms))


def forecast_workload(
    workload: SliceWorkload, predictor: SlicePredictor, platforms: Mapping[str, Platform]
) -> Forecast:
    """On every slice of its GPU model and on the whole GPU. Raises UsageError."""
    made = recommend(workload, lookup(workload.gpu), predictor)
    places = slice_platforms(workload.gpu, platforms)
    return forecast_of(workload, made, places, bundle=predictor.model.id)


def slice_platforms(gpu: str, known: Mapping[str, Platform]) -> dict[str, str]:
    """Platforms of that GPU model and its slices: the profile's name (or WHOLE) by platform."""
    model = lookup(gpu).gpu
    found: dict[str, str] = {}
    for platform in (*every_slice(known), *known.values()):
        cut = slice_of(platform)
        if cut is not None and cut[0].gpu == model:
            found[platform.name] = cut[1].name
        elif platform.kind is PlatformKind.GPU and _is_model(platform.name, model):
            found[platform.name] = WHOLE
    return found


def _is_model(platform: str, model: str) -> bool:
    try:
        return lookup(platform).gpu == model
    except UsageError:
        return False
