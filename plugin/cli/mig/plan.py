"""``berth mig plan``: makes a plan document and its explanation from a fleet and jobs."""

from __future__ import annotations

from pathlib import Path

import click

from berth.pilot.documents import read_json_or_toml, to_json, write_json
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import FILE, as_seconds, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.mig.recommending import demands_of, predictions_for, with_workloads
from berth.plugin.report.of_fleet import plan_parts
from berth.plugin.report.parts import Report
from berth.plugin.report.terminal import report_text
from berth.policies.mig.documents import (
    JobsDocument,
    check_profiles,
    plan_document,
    read_fleet,
)
from berth.policies.mig.planner import plan as make_plan

SHOWN = 40
"""Maximum number of GPUs and jobs shown on a screen; the plan document has all."""
workload_jobs_option = click.option(
    "--workload",
    "named",
    multiple=True,
    metavar="NAME|FILE[=COUNT]",
    help="Jobs of a workload in the store or in a file, of any kind; may be repeated.",
)


@click.command()
@click.option(
    "--fleet",
    "fleet_files",
    required=True,
    multiple=True,
    type=FILE,
    help="The GPUs as they stand (berth.mig-fleet/1; JSON or TOML); may be repeated.",
)
@click.option(
    "--jobs",
    "jobs_file",
    type=FILE,
    help="The jobs and the slices (or the workload) of each (berth.mig-jobs/1; JSON or TOML).",
)
@workload_jobs_option
@click.option(
    "--objective",
    "objectives",
    default="jobs",
    help="What to plan for: jobs, throughput, makespan, energy, gpus, recuts; with commas.",
)
@click.option("--horizon", "horizon_s", callback=as_seconds, default="0s",
              help="Wait so long for running instances, for example 30m.")  # fmt: skip
@click.option("--recut/--no-recut", default=True, help="Leave every layout as it is.")
@click.option("--json", "json_", is_flag=True, help="Print the plan document.")
@click.option("--output", type=FILE, help="Write the plan document (berth.mig-plan/1) here.")
@store_options
def plan(  # noqa: PLR0917 - one parameter an option
    fleet_files: tuple[Path, ...],
    jobs_file: Path | None,
    named: tuple[str, ...],
    objectives: str,
    horizon_s: float,
    recut: bool,
    json_: bool,
    output: Path | None,
    installation: Installation,
) -> None:
    """Plan a layout for each GPU and who runs where; running instances stay where they are.

    Workloads of any kind (a file, or a name in the store) are given the slices that they fit in.
    Touches nothing: berth mig apply carries a plan out.

    \b
    Example:
      berth mig plan --fleet fleet.json --jobs jobs.json --objective jobs,makespan
      berth mig plan --fleet fleet.json --workload bert=4 --workload llama/config.json
    """
    if jobs_file is None and not named:
        raise UsageError("there are no jobs to plan for", hint="give --jobs FILE or --workload")
    fleet, states = read_fleet(fleet_files)
    jobs = None if jobs_file is None else read_json_or_toml(jobs_file, JobsDocument)
    if jobs is not None and jobs_file is not None:
        check_profiles(jobs, states, source=jobs_file)
    demands = demands_of(
        with_workloads(jobs, named),
        [state.geometry.gpu for state in states],
        lambda: predictions_for(installation.site()),
        installation.reading,
    )
    planned = make_plan(
        states,
        demands,
        objectives,
        now_s=fleet.as_of_s,
        horizon_s=horizon_s,
        recut=recut,
    )
    document = plan_document(planned, fleet)
    if output is not None:
        write_json(output, document)
    if json_:
        click.echo(to_json(document).rstrip())
    else:
        report = Report(f"Plan by {document.solver}", "", plan_parts(document, most=SHOWN))
        click.echo(report_text(report))
        if output is not None:
            click.echo(f"The plan is in {output}.")
