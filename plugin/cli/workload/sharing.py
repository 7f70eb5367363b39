"""How workloads reach the store: by a command, from other hosts, and shared with all users."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import click

from berth.pilot.errors import BerthError, DocumentError
from berth.plugin.cli.options import PATH, answer, installed_site_option, json_option, store_options
from berth.plugin.daemon.protocol import MAX_SCRIPT_BYTES
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.installed_site import Installation
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
@click.argument("folder", type=PATH)
@click.option(
    "--believe", metavar="USER", multiple=True, default=("root",), show_default=True,
    help="Whose word on what jobs used counts for all jobs (nobody, where root is squashed).",
)  # fmt: skip
@installed_site_option
@json_option
def collect(folder: Path, *, believe: tuple[str, ...], site_file: Path, json_: bool) -> None:
    """Bring in what pilot jobs of other hosts left in FOLDER, as the files' owners' workloads, and
    what nodes told of jobs that have ended (`berth pilot usage`).

    For a timer of the daemon's user, who must own FOLDER (mode 1733). Links, FIFOs, devices and
    files with two names are refused and renamed to *.refused.

    \b
    Example:
      berth workload collect /shared/berth-spool
    """
    watcher = SiteWatcher(site_file)
    workloads = UserWorkloads(Store.open(watcher.site.daemon.store), watcher, believed=believe)
    collected = []
    for brought in brought_in(folder, workloads):
        collected.append(brought)
        done = (
            f"{brought.name} (of {brought.user})"
            if brought.problem is None
            else f"refused: {brought.problem}"
        )
        if not json_:
            click.echo(f"{brought.file!r}: {done}")
    if json_:
        click.echo(
            json.dumps({"files": [dataclasses.asdict(brought) for brought in collected]}, indent=2)
        )
    if refused := sum(brought.problem is not None for brought in collected):
        raise BerthError(f"{refused} files were refused")


@click.command()
@click.argument("name")
@json_option
@store_options
def share(
    name: str,
    *,
    json_: bool,
    installation: Installation,
) -> None:
    """Let a workload serve all users: ask an admin for it, or, as an admin, do it.

    All users get a copy: what its owner changes later stays the owner's.

    \b
    Example:
      berth workload share stream
      berth workload share alice/stream
    """
    users = installation.users_socket()
    if users is not None:
        shared = RemoteStore(users).share(name)
    else:
        shared = name.rpartition("/")[2]
        store = installation.store(create=False)
        record = stored_for(store, name, caller())
        copy = dataclasses.replace(workload_in(store, record), name=shared)
        store_workload(copy, store, installation.site(), replace=True)
    text = (
        f"{name}: an admin is asked to share it (berth workload share USER/{name})"
        if shared is None
        else f"{shared}: all users have it now"
    )
    answer(text, {"workload": name, "shared_as": shared}, json_=json_)


def store_workload(
    workload: Workload,
    store: Store,
    site: Site | None,
    *,
    replace: bool,
) -> Forecast:
    """Store the workload with its forecast, and return that. Raises UsageError as
    ``add_workload``."""
    return add_workload(
        store,
        workload,
        forecaster=forecaster_for(site),
        platforms=platforms_for(site),
        owner=owner_in(workload.name) or caller(),
        reference=reference_of(site),
        replace=replace,
    )


def script_text(path: Path) -> str:
    """Read a job script as text. Raises DocumentError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > MAX_SCRIPT_BYTES:
        raise DocumentError(
            path,
            f"is larger than the {MAX_SCRIPT_BYTES} bytes that are looked at when jobs come",
            hint="let its jobs name the workload: --comment=berth:NAME",
        )
    return raw.decode("utf-8", "replace")


def digest_of_file(path: Path) -> str:
    """Return the digest of a file by which jobs are matched. Raises DocumentError."""
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
