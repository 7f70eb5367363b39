"""How workloads reach the store: from a command, from other hosts, and shared with all users."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from berth.pilot.errors import BerthError
from berth.plugin.cli.options.common import answer, installed_site_option, json_option
from berth.plugin.cli.options.where import store_options
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.installed_site import find_site, open_store, users_socket
from berth.plugin.site import Site
from berth.plugin.site.load import SiteWatcher
from berth.plugin.store import Store
from berth.plugin.users.client import RemoteStore
from berth.plugin.users.collecting import collect as brought_in
from berth.plugin.users.workloads import UserWorkloads
from berth.plugin.workloads.filing import add_workload, stored_for, workload_in
from berth.plugin.workloads.names import caller, owner_in
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import Workload


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@installed_site_option
@json_option
def collect(folder: Path, *, site_file: Path, json_: bool) -> None:
    """Bring in what pilot jobs of other hosts left in FOLDER, as the files' owners' workloads.

    For a timer of the daemon's user, who must own FOLDER (mode 1733). Links, FIFOs, devices and
    files with two names are refused and renamed to *.refused.

    \b
    Example:
      berth workload collect /shared/berth-spool
    """
    watcher = SiteWatcher(site_file)
    workloads = UserWorkloads(Store.open(watcher.site.daemon.store), watcher)
    found = []
    for one in brought_in(folder, workloads):
        found.append(one)
        done = f"{one.name} (of {one.user})" if one.problem is None else f"refused: {one.problem}"
        if not json_:
            click.echo(f"{one.file!r}: {done}")
    if json_:
        click.echo(json.dumps({"files": [dataclasses.asdict(one) for one in found]}, indent=2))
    if refused := sum(one.problem is not None for one in found):
        raise BerthError(f"{refused} files were refused")


@click.command()
@click.argument("name")
@click.option("--as", "alias", help="The name for all users. Default: the same.")
@json_option
@store_options
def share(
    name: str,
    *,
    alias: str | None,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Let a workload serve all users: ask an admin for it, or, as an admin, do it.

    All users get a copy: what its owner changes later stays the owner's.

    \b
    Example:
      berth workload share stream
      berth workload share alice/stream --as stream-3.1
    """
    users = users_socket(site_file, store_url)
    if users is not None:
        shared = RemoteStore(users).share(name, alias)
    else:
        shared = alias or name.rpartition("/")[2]
        store = open_store(site_file, store_url)
        record = stored_for(store, name, caller())
        found = dataclasses.replace(workload_in(store, record), name=shared)
        store_workload(found, store, (), find_site(site_file), replace=True)
    text = (
        f"{name}: an admin is asked to share it (berth workload share USER/{name})"
        if shared is None
        else f"{shared}: all users have it now"
    )
    answer(text, {"workload": name, "shared_as": shared}, json_=json_)


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
