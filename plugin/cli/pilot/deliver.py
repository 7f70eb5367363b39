"""Adds a Profile to the store: at the end of a pilot job (``berth pilot deliver``), or directly
after ``berth pilot run --store``."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import read_json, to_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.profile import Profile
from berth.pilot.units import format_seconds
from berth.plugin.cli.options import PATH, POSITIVE
from berth.plugin.forecasting import forecaster_for, platforms_for, reference_of
from berth.plugin.installed_site import Installation
from berth.plugin.placing import asked_request, place
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import Site, load_site
from berth.plugin.store import Store
from berth.plugin.users.client import RemoteStore
from berth.plugin.users.collecting import leave_for_collection
from berth.plugin.workloads.filing import add_workload, check_name, with_nodes
from berth.plugin.workloads.names import caller, own_name
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.workload import read_workload, workload_of


@click.command(epilog="Example: berth pilot deliver app.profile.json --site /etc/berth/berth.toml")
@click.argument("profile", type=PATH)
@click.option("--site", "site_file", required=True, type=PATH, help="Site file.")
@click.option(
    "--spool", type=PATH, help="Folder to leave the Profile in if the store is out of reach."
)
@click.option(
    "--with",
    "others",
    multiple=True,
    type=PATH,
    help="Profile of the same program on another number of nodes; one that is not there is said.",
)
@click.option("--then-place", is_flag=True, help="Place the job that waits for this one.")
@click.option("--tasks", type=POSITIVE, help="Tasks of the waiting job.")
@click.option("--cpus-per-task", type=POSITIVE, help="Cores of each task of the waiting job.")
@click.option("--nodes", type=POSITIVE, help="Nodes of the waiting job.")
@click.option("--mem", help="Memory of the waiting job.")
@click.option("--time-limit", help="Time limit of the waiting job.")
@click.option("--constraint", help="Node features of the waiting job.")
@click.option("--account", help="Account of the waiting job.")
@click.option("--qos", help="Quality of service of the waiting job.")
@click.option("--size", type=float, help="Problem size of the waiting job.")
def deliver(profile: Path, **options: Any) -> None:
    """Bring a pilot's PROFILE to the store, and place the job that waits for the pilot.

    Pilot jobs run this at their end; both steps are tried whatever becomes of the other.
    """
    measured = read_json(profile, Profile)
    problems: list[str] = []
    try:
        every = _whole([profile, *options["others"]])
        click.echo(_bring_home(every, measured.name, options["site_file"], options["spool"]))
    except BerthError as error:
        problems.append(error.message)
    if options["then_place"]:
        try:
            click.echo(_place(measured, load_site(options["site_file"]), options))
        except BerthError as error:
            problems.append(f"the waiting job is left as it was asked: {error.message}")
    if problems:
        raise BerthError("; ".join(problems))


def _whole(profiles: Sequence[Path]) -> list[Path]:
    """Return the paths of the profiles whose run completed, or the first path if none did; a
    single path is returned unchecked."""
    if len(profiles) == 1:
        return list(profiles)
    usable = []
    for path in profiles:
        try:
            measured = read_json(path, Profile)
        except BerthError as error:
            click.echo(f"left out: {error.message}")
            continue
        if measured.complete and measured.exit_status == 0 and measured.runtime is not None:
            usable.append(path)
        else:
            click.echo(f"left out: {path}: its run did not complete")
    return usable or list(profiles[:1])


def _bring_home(profiles: Sequence[Path], name: str, site_file: Path, spool: Path | None) -> str:
    """Add the profiles to the store by ``berth workload add``, else leave them in the spool folder;
    return a sentence on the result.

    The workload is stored as this user's own, so another user's workload of the same name is
    unchanged.
    """
    own = own_name(caller(), name)
    done = subprocess.run(
        [sys.executable, "-c", "from berth.plugin.cli import main; main()",
         "workload", "add", *map(str, profiles), "--name", own, "--replace",
         "--site", str(site_file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return f"{own} is in the store."
    why = done.stderr.strip().splitlines()[0] if done.stderr.strip() else "no reason given"
    profile = profiles[0]
    if spool is None:
        raise BerthError(f"{profile} is not in the store ({why}): there, run berth workload add")
    try:
        # The random part keeps other users from taking the name in advance.
        unique = f"{caller()}-{profile.stem}-{secrets.token_hex(6)}"
        target = leave_for_collection(spool, unique, _one_document(profiles))
    except OSError as error:
        raise BerthError(f"{spool}: cannot be written: {error.strerror} ({why})") from None
    return f"{target} waits to be added to the store ({why})."


def _one_document(profiles: Sequence[Path]) -> bytes:
    """Return the document to leave in the spool folder: one profile that includes the runs on
    other numbers of nodes."""
    if len(profiles) == 1:
        return profiles[0].read_bytes()
    workload, _ = with_nodes(read_workload(profiles[0]), profiles[1:], all_of_them=True)
    return to_json(workload.document).encode()


def _place(profile: Profile, site: Site, options: dict[str, Any]) -> str:
    """Place the pending job that depends on the pilot job; return a sentence on the decision.
    Raises BerthError where the job stays unchanged."""
    scheduler = open_scheduler(site)
    pilot_job = os.environ.get(scheduler.job_variable or "")
    if not pilot_job:
        raise UsageError("this is no pilot job: the scheduler has set no job id")
    job = scheduler.waiting_for(pilot_job)
    if job is None:
        raise BerthError(f"no pending job of yours depends on job {pilot_job}")
    workload = workload_of(profile)
    request = replace(asked_request(workload, options), wants_placement=True)
    placing = place(
        workload,
        request,
        site,
        forecaster=forecaster_for(site),
        scheduler=scheduler,
        strict=True,
    )
    edit = placing.decision.edit
    if edit is None:
        return f"Job {job} stays as it was asked: {placing.decision.reason}"
    scheduler.change_waiting(job, placing.request, edit)
    return f"Job {job}: {placing.decision.reason}"


@dataclass(frozen=True, slots=True)
class Destination:
    """The store that takes a profile, checked before the program runs."""

    store: Store | RemoteStore
    site: Site | None
    replace: bool

    def add(self, profile: Profile) -> str:
        """Store the profile, predicted with the site's bundles, and return a sentence on it.
        Raises UsageError."""
        if isinstance(self.store, RemoteStore):
            name, forecast, _ = self.store.add(
                to_json(profile), name=profile.name, replace=self.replace
            )
            return (
                f"{name}: in {self.store.name}, predicted on {len(forecast.curves)} platforms; "
                f"{fastest(forecast, self.site)}your jobs name it: --comment=berth:{profile.name}"
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
            f"{fastest(forecast, self.site)}jobs name it: --comment=berth:{profile.name}"
        )


def fastest(forecast: Forecast, site: Site | None) -> str:
    """Return words on the platform of the site (None: of all) where a program is predicted to be
    fastest, with as many cores as it used; empty where no prediction can be acted on."""
    used = forecast.gpus or forecast.threads * forecast.ranks
    usable = [
        prediction
        for name, curve in forecast.curves.items()
        if (site is None or name in site.platforms)
        and (prediction := curve.nearest(used)).abstained is None
    ]
    if not usable:
        return ""
    best = min(usable, key=lambda prediction: prediction.runtime_s.mid)
    return f"fastest on {best.platform} ({format_seconds(best.runtime_s.mid)}); "


def destination(name: str, installation: Installation, *, replace: bool) -> Destination:
    """Return the store to which ``berth pilot run --store`` adds its profile, opened before the
    program runs.

    Raises UsageError where there is no store, or where another workload has the name.
    """
    check_name(name)
    site = installation.site()
    store = installation.changed(create=True)
    own = f"{caller()}/{name}" if isinstance(store, RemoteStore) else name
    if not replace and store.workload(own) is not None:
        raise UsageError(
            f"a workload named {name!r} is in {store.name} already",
            hint="give another --name, or --replace to put the new run in its place",
        )
    return Destination(store, site, replace)
