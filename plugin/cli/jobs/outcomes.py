"""``berth jobs outcomes``: predicted against real times of jobs that have run."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import store_options, table_json_option
from berth.plugin.installed_site import find_site, open_store
from berth.plugin.outcomes.accuracy import (
    GROUPS,
    MOST_COUNTED,
    newest_jobs,
    newest_only,
    summarise,
)
from berth.plugin.report.of_outcomes import (
    accuracy_table,
    gain_notes,
    gain_table,
    jobs_table,
)
from berth.plugin.report.parts import Table
from berth.plugin.report.terminal import table_text
from berth.plugin.store import Store
from berth.plugin.store.records import EndedJob

if TYPE_CHECKING:
    from berth.plugin.site.site import Site

_DAY_S = 86_400.0


@click.command()
@click.option(
    "--by",
    type=click.Choice(list(GROUPS)),
    default="platform",
    show_default=True,
    help="Sum up by this.",
)
@click.option(
    "--days", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Looked back."
)
@click.option("--jobs", is_flag=True, help="List the jobs instead of summing up.")
@click.option("--last", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True,
              help="With --jobs: so many.")  # fmt: skip
@click.option("--short", is_flag=True, help="With --jobs: fewer columns, as squeue has them.")
@click.option("--gain", is_flag=True, help="What placements saved or cost in run time.")
@click.option(
    "--against",
    metavar="CANDIDATE",
    help="With --gain: compare with this place. Default: that of the reference partition.",
)
@table_json_option
@store_options
def outcomes(
    *,
    by: str,
    days: float,
    jobs: bool,
    last: int,
    short: bool,
    gain: bool,
    against: str | None,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Show how well predicted times held for jobs that have run.

    The daemon reads what became of jobs from the scheduler (docs/outcomes.md). A prediction counts
    where the job completed in the place and shape that it was made for.

    \b
    Example:
      berth jobs outcomes
      berth jobs outcomes --by workload --days 7
      berth jobs outcomes --jobs --json
      berth jobs outcomes --gain
    """
    if against is not None and not gain:
        raise UsageError("--against belongs to --gain")
    if short and not jobs:
        raise UsageError("--short belongs to --jobs")
    if jobs and gain:
        raise UsageError("give one of --jobs and --gain")
    store = open_store(site_file, store_url)
    until_s = time.time() + _DAY_S
    since_s = until_s - (days + 1) * _DAY_S
    notes: list[str] = []
    if jobs:
        newest = store.outcomes.last(since_s, until_s, last)
        table: Table[Any] = jobs_table(newest, short=short)
        records: Sequence[Any] = newest
        if len(newest) == last:
            every = store.outcomes.count(since_s, until_s, MOST_COUNTED)
            notes = newest_only("jobs", last, every, "shown: --last")
    else:
        ended, count = newest_jobs(store, since_s, until_s)
        if gain:
            _show_gain(store, ended, count, find_site(site_file), against, json_=json_)
            return
        records = summarise(ended, by)
        table = accuracy_table(records, by)
        notes = newest_only("jobs", len(ended), count)
    if json_:
        data = [dataclasses.asdict(record) for record in records]
        rows = [record | row for record, row in zip(data, table.data(), strict=True)]
        click.echo(json.dumps(rows, indent=2))
    elif not records:
        click.echo(f"no job that was decided upon has ended in the last {days:g} days")
    else:
        click.echo(table_text(table))
        _say(_changes(store, since_s), json_=False)
    _say(notes, json_=json_)


def _show_gain(
    store: Store,
    ended: Sequence[EndedJob],
    count: int,
    site: Site | None,
    against: str | None,
    *,
    json_: bool,
) -> None:
    from berth.plugin.outcomes.gain import MOST, gains_of  # noqa: PLC0415 - numpy

    gains = gains_of(store, ended, site, against)
    if json_:
        click.echo(json.dumps(dataclasses.asdict(gains), indent=2))
    else:
        if gains.groups:
            click.echo(table_text(gain_table(gains)))
        _say(gain_notes(gains), json_=False)
    _say(newest_only("jobs", min(len(ended), MOST), count), json_=json_)


def _say(sentences: Sequence[str], *, json_: bool) -> None:
    """Below a table; beside JSON, that stays as it is."""
    for sentence in sentences:
        click.echo(sentence, err=json_)


def _changes(store: Store, since_s: float) -> list[str]:
    """What finished jobs tell of changes of programs and platforms."""
    if not store.learning.of_all(1):
        return []
    from berth.plugin.learning.shown import changes_since  # noqa: PLC0415 - numpy

    found = changes_since(store, since_s)
    return [*found.sentences, *found.bound]
