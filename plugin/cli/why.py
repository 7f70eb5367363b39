"""``berth why``: explains one job, from its submission to its end."""

from __future__ import annotations

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.report.known_job import known_job
from berth.plugin.report.of_job import why_data, why_text


@click.command()
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@json_option
@store_options
def why(
    jobs: tuple[str, ...],
    *,
    json_: bool,
    installation: Installation,
) -> None:
    """Explain a job: why it is where it is, what it waits for, what was predicted and what came.

    Works for pending, running and finished jobs. When it will start is the scheduler's own
    estimate and, where there is a site file, that of a live replay with its 90 % interval.

    \b
    Example:
      berth why 4711
      berth why 4711 4712
    """
    store = installation.view()
    known, unknown = [], []
    for job in jobs:
        try:
            known.append(known_job(store, job, installation.site_file))
        except UsageError as error:
            unknown.append(error)
    if not known:
        raise unknown[0]
    data = [why_data(job) for job in known]
    answer(
        "\n".join(map(why_text, known)),
        data if len(jobs) > 1 else data[0],
        json_=json_,
    )
    for problem in unknown:
        click.echo(problem.message, err=True)
