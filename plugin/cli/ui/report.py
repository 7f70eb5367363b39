"""``berth ui report``: writes a report on a job, workload, site or GPU fleet as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.documents import read_json, read_json_or_toml, write_text
from berth.pilot.errors import UsageError
from berth.plugin.cli.options import store_options
from berth.plugin.cli.workload.options import usual_workload_options
from berth.plugin.installed_site import Installation
from berth.plugin.workloads.files import WorkloadOptions

if TYPE_CHECKING:
    from berth.plugin.report.parts import Report

_file = click.Path(path_type=Path, dir_okay=False)


@click.group()
def report() -> None:
    """Write what the page shows as one HTML file that stands alone, for a mail or a ticket.

    The file holds its pictures and its style, runs no script and loads nothing from anywhere.
    Without --html the same is printed as text.

    \b
    Example:
      berth ui report job 4711 --html job.html
      berth ui report site --html site.html
    """


def _output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--json", "json_", is_flag=True, help="Print JSON.")(command)
    return click.option("--html", type=_file, help="Write the report as this HTML file.")(command)


@report.command()
@click.argument("job")
@_output_options
@store_options
def job(job: str, *, html: Path | None, json_: bool, installation: Installation) -> None:
    """Report one job (or a decision by its id): what was decided, why, how it stands, what came.

    \b
    Example:
      berth ui report job 4711 --html job.html
    """
    from berth.plugin.report.known_job import known_job  # noqa: PLC0415 - store and scheduler
    from berth.plugin.report.of_decision import decided_one  # noqa: PLC0415
    from berth.plugin.report.of_job import job_report, undecided_report  # noqa: PLC0415

    store, pictures = installation.view(), html is not None or json_
    record = store.decisions.get(job)
    if record is not None:
        ended = store.outcomes.of_decision(record.id)
        known = known_job(store, ended[0].job_id, installation.site_file) if ended else None
        _put(job_report(decided_one(store, record), known, pictures=pictures), html, json_=json_)
        return
    known = known_job(store, job, installation.site_file)
    if known.decision is None:
        _put(undecided_report(known), html, json_=json_)
    else:
        shown = job_report(decided_one(store, known.decision), known, pictures=pictures)
        _put(shown, html, json_=json_)


@report.command()
@click.argument("name", metavar="WORKLOAD|FILE")
@_output_options
@usual_workload_options
@store_options
def workload(
    name: str,
    *,
    html: Path | None,
    json_: bool,
    described: WorkloadOptions,
    installation: Installation,
) -> None:
    """Report what is predicted of a workload of the store, or of a file, and why.

    \b
    Example:
      berth ui report workload resnet50.onnx --batch 32 --html resnet50.html
      berth ui report workload stream --html stream.html
    """
    from berth.plugin.forecasting import forecaster_for  # noqa: PLC0415 - numpy
    from berth.plugin.mig.recommending import workload_named  # noqa: PLC0415
    from berth.plugin.report.of_workload import rank_workload, workload_report  # noqa: PLC0415

    site = installation.site()
    asked = workload_named(name, installation.reading, described)
    _put(workload_report(rank_workload(asked, forecaster_for(site), site)), html, json_=json_)


@report.command(name="site")
@click.option("--days", type=click.FloatRange(min=0), default=30.0, help="Report on so many days.")
@_output_options
@store_options
def site_(*, days: float, html: Path | None, json_: bool, installation: Installation) -> None:
    """Report the site: platforms, calibration, coverage, changes, gain, what shadow mode saw.

    \b
    Example:
      berth ui report site --html site.html
    """
    from berth.plugin.doctor.examine import examine  # noqa: PLC0415 - everything
    from berth.plugin.learning.shown import NewestJobs  # noqa: PLC0415
    from berth.plugin.report.of_site import figure_parts, report_of, setup_parts  # noqa: PLC0415

    site = installation.needed_site()
    store = cache(installation.reading)
    newest = cache(lambda: NewestJobs(store()))
    setup = setup_parts(site, list(examine(site, newest)))
    figures = figure_parts(
        site, store, days=days, pictures=html is not None or json_, newest=newest
    )
    _put(report_of(site, [*setup, *figures]), html, json_=json_)


@report.command()
@click.option("--fleet", "fleet_file", type=_file, required=True,
              help="The GPUs as they stand (berth.mig-fleet/1).")  # fmt: skip
@click.option("--plan", "plan_file", type=_file, help="A plan for them (berth.mig-plan/1).")
@_output_options
def mig(fleet_file: Path, *, plan_file: Path | None, html: Path | None, json_: bool) -> None:
    """Report the GPUs slice by slice, beside a plan for them, and the steps between.

    \b
    Example:
      berth ui report mig --fleet fleet.json --plan plan.json --html mig.html
    """
    from berth.plugin.report.of_fleet import fleet_report  # noqa: PLC0415 - numpy
    from berth.policies.mig.documents import (  # noqa: PLC0415
        FleetDocument,
        PlanDocument,
        states_of,
    )

    states = states_of(read_json_or_toml(fleet_file, FleetDocument), source=fleet_file)
    plan = None if plan_file is None else read_json(plan_file, PlanDocument)
    _put(fleet_report(states, plan), html, json_=json_)


def _put(content: Report, path: Path | None, *, json_: bool) -> None:
    from berth.plugin.report import html as page  # noqa: PLC0415 - slow only where used
    from berth.plugin.report.json_data import as_json  # noqa: PLC0415
    from berth.plugin.report.terminal import report_text  # noqa: PLC0415

    if path is not None:
        _need_matplotlib()
        try:
            write_text(path, page.html(content, made_by="berth ui report"))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    if json_:
        click.echo(json.dumps(as_json(content), indent=2))
    elif path is None:
        click.echo(report_text(content))
    else:
        click.echo(f"The report is in {path}.")


def _need_matplotlib() -> None:
    """Raises ToolMissing without matplotlib: a report without pictures would not say that they
    are missing."""
    from berth.plugin.pictures.figure import drawing  # noqa: PLC0415

    with drawing("#d9dee3"):
        pass
