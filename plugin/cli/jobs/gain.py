"""``berth jobs gain``: shows what placements saved or cost."""

from __future__ import annotations

import dataclasses

import click

from berth.plugin.cli.jobs.outcomes import days_option, last_days, say
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.outcomes.accuracy import newest_jobs, newest_only
from berth.plugin.outcomes.measured_gain import gains_of
from berth.plugin.report.of_gain import gain_part


@click.command()
@days_option
@json_option
@store_options
def gain(*, days: float, json_: bool, installation: Installation) -> None:
    """Show what placements saved or cost.

    Control jobs ([policy] control) are left as written, or get the plain list of partitions, by
    chance; what changed jobs took is compared with what they took (docs/outcomes.md).

    \b
    Example:
      berth jobs gain
      berth jobs gain --days 7
    """
    store = installation.reading()
    ended, count = newest_jobs(store, *last_days(days))
    measured, grounds = gains_of(store, ended, installation.site())
    data = {"measured": [dataclasses.asdict(gain) for gain in measured], "grounds": grounds}
    answer(gain_part(measured, grounds), data, json_=json_)
    say(newest_only("jobs", len(ended), count), json_=json_)
