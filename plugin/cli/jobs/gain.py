"""``berth jobs gain``: shows what placements saved or cost."""

from __future__ import annotations

import dataclasses

import click

from berth.plugin.cli.jobs.outcomes import days_option, last_days, say
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.outcomes.accuracy import newest_jobs, newest_only
from berth.plugin.report.of_gain import gain_part


@click.command()
@click.option(
    "--against",
    metavar="CANDIDATE",
    help="Estimate against this place. Default: that of the reference partition.",
)
@days_option
@json_option
@store_options
def gain(*, against: str | None, days: float, json_: bool, installation: Installation) -> None:
    """Show what placements saved or cost.

    With control jobs ([policy] control) the gain is measured: changed jobs against jobs that were
    left as written, by chance. Without them it is estimated in run time against one other place,
    where jobs did not run and their time is only predicted (docs/outcomes.md).

    \b
    Example:
      berth jobs gain
      berth jobs gain --against cpu --days 7
    """
    from berth.plugin.outcomes.gain import MOST, gains_of  # noqa: PLC0415 - numpy

    store = installation.store(create=False)
    ended, count = newest_jobs(store, *last_days(days))
    measured, estimated = gains_of(store, ended, installation.site(), against)
    data = {
        "measured": [dataclasses.asdict(gain) for gain in measured],
        "estimated": dataclasses.asdict(estimated),
    }
    answer(gain_part(measured, estimated), data, json_=json_)
    say(newest_only("jobs", min(len(ended), MOST), count), json_=json_)
