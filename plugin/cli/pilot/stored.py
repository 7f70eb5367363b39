"""``berth pilot run --store``: the Profile goes to the store at once, with its forecast."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from berth.pilot.documents import to_json
from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.options.where import find_site, open_view
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.site import Site
from berth.plugin.store import Store
from berth.plugin.users.client import RemoteStore
from berth.plugin.workloads.filing import add_workload, check_name
from berth.plugin.workloads.names import caller
from berth.predictor.core.workload import workload_of


@dataclass(frozen=True, slots=True)
class Destination:
    """A store that will take a profile of one name."""

    store: Store | RemoteStore
    site: Site | None
    replace: bool

    def add(self, profile: Profile) -> str:
        """File it, predicted with the site's bundles; a sentence about it. Raises UsageError."""
        if isinstance(self.store, RemoteStore):
            name, forecast, _ = self.store.add(
                to_json(profile), name=profile.name, replace=self.replace
            )
            return (
                f"{name}: in {self.store.name}, predicted on {len(forecast.curves)} platforms; "
                f"your jobs name it: --comment=berth:{profile.name}"
            )
        forecast = add_workload(
            self.store,
            workload_of(profile),
            forecaster=forecaster_for(self.site),
            platforms=platforms_for(self.site),
            owner=caller(),
            reference=reference_of(self.site),
            replace=self.replace,
        )
        return (
            f"{profile.name}: in {self.store.name}, predicted on {len(forecast.curves)} platforms; "
            f"jobs name it: --comment=berth:{profile.name}"
        )


def destination(
    name: str, site_file: Path | None, store_url: str | None, *, replace: bool
) -> Destination:
    """The store that ``--store`` means; looked at before the program is run.

    Raises UsageError where there is none, or where another workload has the name.
    """
    check_name(name)
    site = find_site(site_file)
    store = open_view(site_file, store_url)
    own = f"{caller()}/{name}" if isinstance(store, RemoteStore) else name
    if not replace and store.workload(own) is not None:
        raise UsageError(
            f"a workload named {name!r} is in {store.name} already",
            hint="give another --name, or --replace to put the new run in its place",
        )
    return Destination(store, site, replace)
