"""``berth jobs gain``: what placements saved or cost in run time."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import click

from berth.plugin.cli.jobs.outcomes import say
from berth.plugin.cli.options import store_options, table_json_option
from berth.plugin.installed_site import find_site, open_store
from berth.plugin.outcomes.accuracy import newest_jobs, newest_only
from berth.plugin.report.of_outcomes import gain_notes, gain_table
from berth.plugin.report.terminal import table_text

_DAY_S = 86_400.0


@click.command()
@click.option(
    "--against",
    metavar="CANDIDATE",
    help="Compare with this place. Default: that of the reference partition.",
)
@click.option(
    "--days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Look at jobs that ended in so many days.",
)
@table_json_option
@store_options
def gain(
    *,
    against: str | None,
    days: float,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Show what placements saved or cost in run time, against one other place.

    One of a job's two times is measured, where it ran; the other is predicted (docs/outcomes.md).

    \b
    Example:
      berth jobs gain
      berth jobs gain --against cpu --days 7
    """
    from berth.plugin.outcomes.gain import MOST, gains_of  # noqa: PLC0415 - numpy

    store = open_store(site_file, store_url)
    until_s = time.time() + _DAY_S
    ended, count = newest_jobs(store, until_s - (days + 1) * _DAY_S, until_s)
    gains = gains_of(store, ended, find_site(site_file), against)
    if json_:
        click.echo(json.dumps(dataclasses.asdict(gains), indent=2))
    else:
        if gains.groups:
            click.echo(table_text(gain_table(gains)))
        say(gain_notes(gains), json_=False)
    say(newest_only("jobs", min(len(ended), MOST), count), json_=json_)
