"""``berth place``: shows where a workload should run, why, and the command that submits it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.profile import Profile
from berth.plugin.cli.options import POSITIVE, Named, site_option
from berth.plugin.cli.workload.options import usual_workload_options
from berth.plugin.forecasting import forecaster_for
from berth.plugin.installed_site import Installation
from berth.plugin.placing import asked_request
from berth.plugin.placing import place as decide_place
from berth.plugin.report.of_placement import placement_data, placement_report
from berth.plugin.report.terminal import report_text
from berth.plugin.scheduler import Job
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import Site, demo_site
from berth.plugin.site_file import find_site
from berth.plugin.store import Store
from berth.plugin.users.client import RemoteStore
from berth.plugin.workloads.files import WorkloadOptions, read_file, with_options
from berth.plugin.workloads.filing import others_of_name
from berth.plugin.workloads.names import caller, owner_in
from berth.policies.objectives import OBJECTIVES
from berth.predictor.core.workload import Workload, parse_workload


@click.command()
@click.argument("name", metavar="FILE|NAME")
@click.argument("words", nargs=-1, metavar="[-- SCRIPT | CMD ARGS...]")
@click.option("--tasks", type=POSITIVE, help="Tasks (ranks). Default: as it ran.")
@click.option("--cpus-per-task", type=POSITIVE, help="Cores for each. Default: as it ran.")
@click.option("--nodes", "-N", type=POSITIVE, help="Keep to so many nodes.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs in all. Default: as it ran.")
@click.option("--mem", help="Memory for each node, for example 16G.")
@click.option("--time-limit", help="Time limit, for example 90m or 12h.")
@click.option("--finish-within", help="Deadline from now, for --policy deadline, for example 6h.")
@click.option("--partition", help="Stay in this partition.")
@click.option("--constraint", help="Stay on nodes with these features.")
@click.option("--gres", help="GPU resources to keep, for example gpu:h100:1.")
@click.option(
    "--policy",
    type=Named(OBJECTIVES),
    metavar="OBJECTIVE",
    help="Objective to score by. Default: the site's.",
)
@click.option("--user", help="Decide for this user. Default: you.")
@click.option("--account", help="Account to charge.")
@click.option("--qos", help="Quality of service to keep.")
@click.option("--size", type=float, help="Problem size, where it is not the measured one.")
@site_option
@click.option("--demo", is_flag=True, help="Use the demo site, whatever is installed.")
@click.option("--strict", is_flag=True, help="Decide as the submit filter does.")
@click.option("--state/--no-state", default=True, help="Ask the scheduler for its present state.")
@click.option(
    "--explain", is_flag=True, help="Show what each score is made of, and each time's sources."
)
@click.option("--json", "json_", is_flag=True, help="Print the Decision as JSON.")
@click.option("--submit", is_flag=True, help="Submit it and print the job's id.")
@usual_workload_options
def place(name: str, words: tuple[str, ...], described: WorkloadOptions, **options: Any) -> None:
    """Decide where a workload should run, and print the line that submits it.

    FILE is whatever `berth workload add` takes; NAME is that of a workload in the site's store,
    which goes before a file of that name in this folder (that one: ./NAME). --demo uses a made-up
    site over the shipped platforms.

    Example: berth place lu.json --tasks 32 --policy cheapest -- job.sh
    """
    is_demo = options["demo"]
    site = demo_site() if is_demo else find_site(options["site_file"])
    if site is None:
        raise UsageError(
            "there is no site file, so that there are no places to choose from",
            hint="name yours with --site berth.toml (berth site init writes one); --demo shows a "
            "made-up site",
        )
    if options["submit"] and is_demo:
        raise UsageError("the demo site is not a cluster", hint="name yours: --site berth.toml")
    if options["submit"] and not words:
        raise UsageError("there is nothing to submit", hint="add: -- job.sh")
    user = options.get("user") or caller()
    found = _workload(name, user, site, described, in_store=not is_demo)
    request = asked_request(found, options)
    scheduler = open_scheduler(site)
    placing = decide_place(
        found,
        request,
        site,
        forecaster=forecaster_for(site),
        scheduler=scheduler if options["state"] and not is_demo else None,
        objective=options["policy"],
        strict=options["strict"],
    )
    command = None
    if placing.decision.chosen is not None:
        command = scheduler.render(_job(words, found), request, placing.decision.edit)
    job_id = None
    if options["submit"]:
        if command is None:
            raise BerthError(f"not submitted: {placing.decision.reason}")
        job_id = scheduler.submit(command)
    if options["json_"]:
        answer = placement_data(placing, site, command)
        click.echo(json.dumps({**answer, "job_id": job_id}, indent=2))
        return
    click.echo(report_text(placement_report(placing, site, command, explain=options["explain"])))
    if job_id is not None:
        click.echo(f"  Submitted as job {job_id}.")


def _workload(
    name: str, user: str, site: Site, described: WorkloadOptions, *, in_store: bool
) -> Workload:
    """Return the workload of a file, or the one of that name in the site's store: the user's own,
    else a shared one.

    A name without ``/`` and file ending is looked up in the store first, so that ``app`` means the
    workload even where the program ``./app`` exists.
    """
    path = Path(name)
    is_bare = "/" not in name and not path.suffix
    elsewhere = path.suffix or (not is_bare and owner_in(name) != user)
    if not in_store or elsewhere or (path.exists() and not is_bare):
        return read_file(path, described)
    users = Installation(Path(site.source)).users_socket()
    store = Store.reading(site.daemon.store) if users is None else RemoteStore(users)
    record = store.workload(f"{user}/{name}") if users is None else None
    record = record or store.workload(name)
    if record is None and path.exists():
        return read_file(path, described)
    others = [] if record is not None else others_of_name(store, name)
    if others:
        owner = owner_in(others[0].name)
        raise UsageError(
            f"{others[0].name} is the workload of {owner}, and places no job of {user}",
            hint=f"--user {owner} decides for {owner}; berth workload share lets it serve all",
        )
    if record is None:
        raise UsageError(
            f"there is no file {name!r}, nor a workload of that name in {store.name}",
            hint="measure the program: berth pilot run --name NAME -- CMD",
        )
    stored = parse_workload(record.document, source=f"workload {name}")
    return with_options(stored, described)


def _job(words: tuple[str, ...], workload: Workload) -> Job:
    """Return the job to submit: the words after ``--``, or else the command that was profiled.
    Raises UsageError where there is neither."""
    document = workload.document
    words = words or (document.workload.command if isinstance(document, Profile) else ())
    if not words:
        raise UsageError(f"what runs {workload.name} is not known", hint="add: -- job.sh")
    return Job(words, is_script=_is_script(Path(words[0])), comment=f"berth:{workload.name}")


def _is_script(path: Path) -> bool:
    """Return whether the file begins with ``#!``, as batch schedulers require of scripts."""
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"#!"
    except (OSError, ValueError):
        return False
