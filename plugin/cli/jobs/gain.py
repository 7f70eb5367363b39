"""``berth jobs gain``: shows the run time that placements saved or cost."""

from __future__ import annotations

import dataclasses

import click

from berth.plugin.cli.jobs.outcomes import days_option, last_days, say
from berth.plugin.cli.options import answer, store_options, table_json_option
from berth.plugin.installed_site import Installation
from berth.plugin.outcomes.accuracy import newest_jobs, newest_only
from berth.plugin.report.of_outcomes import gain_part


@click.command()
@click.option(
    "--against",
    metavar="CANDIDATE",
    help="Compare with this place. Default: that of the reference partition.",
)
@days_option
@table_json_option
@store_options
def gain(*, against: str | None, days: float, json_: bool, installation: Installation) -> None:
    """Show what placements saved or cost in run time, against one other place.

    One of a job's two times is measured, where it ran; the other is predicted (docs/outcomes.md).

    \b
    Example:
      berth jobs gain
      berth jobs gain --against cpu --days 7
    """
    from berth.plugin.outcomes.gain import MOST, gains_of  # noqa: PLC0415 - numpy

    store = installation.store(create=False)
    ended, count = newest_jobs(store, *last_days(days))
    gains = gains_of(store, ended, installation.site(), against)
    answer(gain_part(gains), dataclasses.asdict(gains), json_=json_)
    say(newest_only("jobs", min(len(ended), MOST), count), json_=json_)
