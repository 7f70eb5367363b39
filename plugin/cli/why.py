"""``berth why``: one job, from its submission to its end."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from berth.plugin.cli.options import store_options, table_json_option
from berth.plugin.installed_site import open_view
from berth.plugin.report.known_job import known_job
from berth.plugin.report.of_job import JOBS, why_text
from berth.plugin.report.parts import Table
from berth.plugin.report.terminal import table_text


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--short", is_flag=True, help="One line a job, in columns as squeue has them.")
@table_json_option
@store_options
def why(
    jobs: tuple[str, ...],
    *,
    short: bool,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Explain a job: why it is where it is, what it waits for, what was predicted and what came.

    Works for pending, running and finished jobs. When it will start is the scheduler's own
    estimate and, where there is a site file, that of a live replay with its 90 % interval.

    \b
    Example:
      berth why 4711
      berth why --short 4711 4712
    """
    store = open_view(site_file, store_url)
    known = [known_job(store, job, site_file) for job in jobs]
    if json_:
        data = [dataclasses.asdict(job) for job in known]
        click.echo(json.dumps(data if len(data) > 1 else data[0], indent=2))
    elif short:
        click.echo(table_text(Table("Jobs", JOBS, known)))
    else:
        click.echo("\n".join(why_text(job) for job in known))
