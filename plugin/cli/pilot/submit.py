"""``berth pilot submit``: submits the pilot to the reference partition, and the job after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from berth.plugin.cli.options import DIRECTORY, NODES, PATH, POSITIVE
from berth.plugin.cli.pilot.common import must_count
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site import load_site


@click.command(
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog="Example: berth pilot submit --then-place --tasks 8 -- ./app input.dat",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--then-place", is_flag=True, help="Also submit the real job, placed by the pilot.")
@click.option(
    "--site",
    "site_file",
    required=True,
    type=PATH,
    envvar="BERTH_SITE",
    help="Site file (berth.toml); the compute nodes must see it.",
)
@click.option("--name", help="Name of the profile [the program's].")
@click.option(
    "--results",
    type=DIRECTORY,
    default=Path(),
    help="Folder for its files; the compute nodes must see it [here].",
)
@click.option(
    "--spool",
    type=DIRECTORY,
    envvar="BERTH_SPOOL",
    help="Shared folder for profiles, where the nodes do not reach the store.",
)
@click.option("--tasks", "-n", type=POSITIVE, default=1,
              help="Tasks (ranks); with several --nodes: on each node.")  # fmt: skip
@click.option("--cpus-per-task", "-c", type=POSITIVE, default=1, help="Cores of each task.")
@click.option("--nodes", "-N", type=NODES, default=(),
              help="Keep to so many nodes; 1,2,4 measures on each.")  # fmt: skip
@click.option("--mem", help="Memory for each node, for example 16G.")
@click.option(
    "--time-limit", "-t", help="Time limit of the real job: 90m, 12h, or as sbatch reads it."
)
@click.option(
    "--partition", "-p", help="Partition of the real job where the pilot decides nothing."
)
@click.option("--constraint", "-C", help="Node features to keep.")
@click.option("--account", "-A", help="Account to charge.")
@click.option("--qos", help="Quality of service.")
@click.option("--pilot-time", default="30m", help="Time limit of the pilot job.")
@click.option("--size", help="See berth pilot run.")
@click.option("--count", is_flag=True, help="See berth pilot run.")
@click.option("--dry-run", is_flag=True, help="Print the scripts and commands; submit nothing.")
@click.option("--json", "json_", is_flag=True, help="Print the job ids as JSON.")
def submit(command: tuple[str, ...], **options: Any) -> None:
    """Measure COMMAND in a short job on the site's reference partition.

    The Profile goes to the site's store, or to the spool folder, and stays in --results. With
    --then-place the real job is submitted too; it waits for the pilot's end, is moved to the best
    place by then, and runs where it was asked if the pilot fails for any reason.

    COMMAND may begin with srun, mpirun or mpiexec: every rank's time and memory is then measured
    in one launch, and nothing is counted. Several --nodes: a pilot job each.
    """
    site = load_site(options["site_file"])
    options["count"] = options["count"] or must_count(site)
    plan = open_scheduler(site).plan_pilot(site, command, options)
    if options["dry_run"]:
        click.echo(plan.shown())
        return
    pilots, job_id = plan.submit()
    if options["json_"]:
        submitted = {
            "profile": str(plan.profile),
            "pilot_job": pilots[-1],
            "pilot_jobs": pilots,
            "job": job_id,
        }
        click.echo(json.dumps(submitted, indent=2))
        return
    word = "job" if len(pilots) == 1 else "jobs"
    verb = "measures" if len(pilots) == 1 else "measure"
    named = ", ".join(pilots)
    click.echo(f"Pilot {word} {named} {verb} {plan.name}; its profile: {plan.profile}")
    if job_id is not None:
        click.echo(f"Job {job_id} waits for it, to be placed.")
