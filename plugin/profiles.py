"""Profiles into the store with their forecasts: nothing is left to predict at submit time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from berth.pilot.documents import MAX_DOCUMENT_BYTES, parse_json, to_json
from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.plugin.placing import Forecaster
from berth.plugin.site.site import Site
from berth.plugin.store import ForecastRecord, ProfileRecord, Store
from berth.predictor.core.forecast import Forecast
from berth.predictor.families.program.predictor import profile_digest
from berth.predictor.hardware import platforms as known_platforms


def add_profile(
    store: Store,
    profile: Profile,
    *,
    predictor: Forecaster,
    platforms: Mapping[str, Platform],
    owner: str,
    replace: bool = False,
) -> Forecast:
    """Store a profile and its forecast. Nothing is stored where no forecast can be made.

    Raises UsageError for a profile that cannot be predicted from, or where another one has its
    name, and StoreError.
    """
    check_name(profile.name)
    forecast = predictor.forecast(profile, platforms)
    record = ProfileRecord(
        profile.name, profile_digest(profile), to_json(profile), owner, time.time()
    )
    store.add_profile(record, replace=replace)
    put_forecast(store, forecast)
    return forecast


def check_name(name: str) -> None:
    """Raises UsageError for a name that jobs could not give."""
    if name == "off":
        raise UsageError("a profile cannot be named 'off'", hint="berth:off is how jobs opt out")


def refresh(
    store: Store,
    names: Iterable[str],
    *,
    predictor: Forecaster,
    platforms: Mapping[str, Platform],
) -> list[Forecast]:
    """Make the forecasts of stored profiles again (a new bundle, new platforms)."""
    made = []
    for name in names:
        forecast = predictor.forecast(stored_profile(store, name), platforms)
        put_forecast(store, forecast)
        made.append(forecast)
    return made


def stored_profile(store: Store, name: str) -> Profile:
    """A profile of the store by its name. Raises UsageError where there is none."""
    record = stored(store, name)
    return parse_json(record.document, Profile, source=f"{store.name}: profile {name}")


def stored_profiles(store: Store) -> list[Profile]:
    """Every profile of the store that is of a program."""
    return [
        parse_json(record.document, Profile, source=f"{store.name}: profile {record.name}")
        for record in store.profiles()
        if not is_workload_text(record.document)
    ]


def stored(store: Store, name: str) -> ProfileRecord:
    """What the store holds under that name. Raises UsageError where there is nothing."""
    record = store.profile(name)
    if record is None:
        raise UsageError(
            f"no profile named {name!r} is in {store.name}", hint="see: berth profile list"
        )
    return record


SLICE_WORKLOAD = "berth.slice-workload/1"
"""Schema of what stands beside profiles in the store (``berth.plugin.slice_workloads``)."""


def is_workload(path: Path) -> bool:
    """True where the file says that it is a workload of slices (or is TOML, as no profile is)."""
    if path.suffix == ".toml":
        return True
    try:
        with path.open("rb") as stream:
            return is_workload_text(stream.read(MAX_DOCUMENT_BYTES + 1))
    except OSError:
        return False


def is_workload_text(text: str | bytes) -> bool:
    """The same of a document."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and data.get("schema") == SLICE_WORKLOAD


def platforms_for(site: Site | None) -> Mapping[str, Platform]:
    """All that a forecast covers: the shipped platforms and the site's own."""
    return {**known_platforms.load(), **(site.platforms if site else {})}


def put_forecast(store: Store, forecast: Forecast) -> None:
    """Keep it as the newest of its profile."""
    store.put_forecast(
        ForecastRecord(forecast.workload, forecast.bundle, forecast.to_json(), time.time())
    )
