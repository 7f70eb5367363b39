"""``berth pilot deliver``: what a pilot job runs at its end."""

from __future__ import annotations

import getpass
import os
import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from berth.pilot.documents import read_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.profile import Profile
from berth.pilot.units import parse_bytes, parse_duration_s
from berth.plugin.forecasting import forecaster_for
from berth.plugin.placing import place, request_from
from berth.plugin.site import Site, load_site
from berth.plugin.users.collecting import leave_for_collection
from berth.plugin.workload_names import own_name
from berth.policies import Request
from berth.predictor.core.workload import workload_of

_COUNT = click.IntRange(min=1)


@click.command(epilog="Example: berth pilot deliver app.profile.json --site /etc/berth/berth.toml")
@click.argument("profile", type=click.Path(path_type=Path))
@click.option("--site", "site_file", required=True, type=click.Path(path_type=Path))
@click.option(
    "--spool", type=click.Path(path_type=Path), help="Where to, if the store is out of reach."
)
@click.option("--then-place", is_flag=True, help="Place the job that waits for this one.")
@click.option("--pilot-job", help="This job's id. Default: as the scheduler has set it.")
@click.option("--tasks", type=_COUNT, help="Of the waiting job.")
@click.option("--cpus-per-task", type=_COUNT, help="Of the waiting job.")
@click.option("--nodes", type=_COUNT, help="Of the waiting job.")
@click.option("--mem", help="Of the waiting job.")
@click.option("--time-limit", help="Of the waiting job.")
@click.option("--constraint", help="Of the waiting job.")
@click.option("--account", help="Of the waiting job.")
@click.option("--qos", help="Of the waiting job.")
@click.option("--size", type=float, help="Problem size of the waiting job.")
def deliver(profile: Path, **options: Any) -> None:
    """Bring a pilot's PROFILE to the store, and place the job that waits for the pilot.

    Pilot jobs run this at their end; both steps are tried whatever becomes of the other.
    """
    found = read_json(profile, Profile)
    problems: list[str] = []
    try:
        click.echo(_bring_home(profile, found.name, options["site_file"], options["spool"]))
    except BerthError as error:
        problems.append(error.message)
    if options["then_place"]:
        try:
            click.echo(_place(found, load_site(options["site_file"]), options))
        except BerthError as error:
            problems.append(f"the waiting job is left as it was asked: {error.message}")
    if problems:
        raise BerthError("; ".join(problems))


def _bring_home(profile: Path, name: str, site_file: Path, spool: Path | None) -> str:
    """Into the store by ``berth workload add``; else into the spool folder. What was done.

    As this user's own: another user's program of the same name stays as it is.
    """
    own = own_name(getpass.getuser(), name)
    done = subprocess.run(
        [sys.executable, "-c", "from berth.plugin.cli import main; main()",
         "workload", "add", str(profile), "--name", own, "--replace",
         "--site", str(site_file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return f"{own} is in the store."
    why = done.stderr.strip().splitlines()[0] if done.stderr.strip() else "no reason given"
    if spool is None:
        raise BerthError(f"{profile} is not in the store ({why}): there, run berth workload add")
    try:
        # Nobody can have taken such a name before.
        unique = f"{getpass.getuser()}-{profile.stem}-{secrets.token_hex(6)}"
        target = leave_for_collection(spool, unique, profile.read_bytes())
    except OSError as error:
        raise BerthError(f"{spool}: cannot be written: {error.strerror} ({why})") from None
    return f"{target} waits to be added to the store ({why})."


def _place(profile: Profile, site: Site, options: dict[str, Any]) -> str:
    """Place the waiting job; what was decided. Raises BerthError where it stays as asked."""
    scheduler = site.open_scheduler()
    pilot_job = options["pilot_job"] or os.environ.get(scheduler.job_variable or "")
    if not pilot_job:
        raise UsageError("this is no pilot job", hint="name it: --pilot-job ID")
    job = scheduler.waiting_for(pilot_job)
    if job is None:
        raise BerthError(f"no pending job of yours depends on job {pilot_job}")
    request = _request(profile, options)
    placing = place(
        workload_of(profile),
        request,
        site,
        forecaster=forecaster_for(site),
        scheduler=scheduler,
        strict=True,
    )
    edit = placing.decision.edit
    if edit is None:
        return f"Job {job} stays as it was asked: {placing.decision.reason}"
    scheduler.change_waiting(job, request, edit)
    return f"Job {job}: {placing.decision.reason}"


def _request(profile: Profile, options: dict[str, Any]) -> Request:
    limit, memory = options["time_limit"], options["mem"]
    asked = request_from(
        workload_of(profile),
        user=getpass.getuser(),
        tasks=options["tasks"],
        cpus_per_task=options["cpus_per_task"],
        nodes=options["nodes"],
        memory_bytes_per_node=None if memory is None else parse_bytes(memory),
    )
    return replace(
        asked,
        account=options["account"],
        qos=options["qos"],
        features=options["constraint"],
        time_limit_s=None if limit is None else parse_duration_s(limit),
        size=options["size"],
        wants_placement=True,
    )
