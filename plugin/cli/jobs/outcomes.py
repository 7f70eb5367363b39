"""``berth jobs outcomes``: compares predicted with real times of finished jobs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import click

from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.installed_site import Installation
from berth.plugin.outcomes.accuracy import (
    GROUPS,
    MOST_COUNTED,
    newest_jobs,
    newest_only,
    summarise,
)
from berth.plugin.report.of_outcomes import accuracy_table, jobs_table
from berth.plugin.report.parts import Part, Table
from berth.plugin.store import Store

_DAY_S = 86_400.0
days_option = click.option(
    "--days", type=click.FloatRange(min=0), default=30.0,
    help="Look at jobs that ended in so many days.",
)  # fmt: skip


def last_days(days: float) -> tuple[float, float]:
    """Return the period from ``days`` days ago until one day from now, as begin and end in Unix
    seconds."""
    until_s = time.time() + _DAY_S
    return until_s - (days + 1) * _DAY_S, until_s


@click.command()
@click.option("--by", type=click.Choice(list(GROUPS)), default="platform", help="Sum up by this.")
@days_option
@click.option("--jobs", is_flag=True, help="List the jobs instead of summing up.")
@click.option("--last", type=click.IntRange(1, 1_000_000), default=1_000,
              help="With --jobs: list so many.")  # fmt: skip
@json_option
@store_options
def outcomes(
    *,
    by: str,
    days: float,
    jobs: bool,
    last: int,
    json_: bool,
    installation: Installation,
) -> None:
    """Show how well predicted times held for jobs that have run.

    The daemon reads what became of jobs from the scheduler (docs/outcomes.md). A prediction counts
    where the job completed in the place and shape that it was made for.

    \b
    Example:
      berth jobs outcomes
      berth jobs outcomes --by workload --days 7
      berth jobs outcomes --jobs --json
    """
    store = installation.reading()
    since_s, until_s = last_days(days)
    notes: list[str] = []
    if jobs:
        newest = store.outcomes.last(since_s, until_s, last)
        table: Table[Any] = jobs_table(newest)
        records: Sequence[Any] = newest
        if len(newest) == last:
            every = store.outcomes.count(since_s, until_s, MOST_COUNTED)
            notes = newest_only("jobs", last, every, "shown: --last")
    else:
        ended, count = newest_jobs(store, since_s, until_s)
        records = summarise(ended, by)
        table = accuracy_table(records, by)
        notes = newest_only("jobs", len(ended), count)
    nothing = f"no job that was decided upon has ended in the last {days:g} days"
    answer(
        lambda: (
            Part("", tables=[table], notes=_changes(store, since_s))
            if records
            else dataclasses.replace(table, if_empty=nothing)
        ),
        [dataclasses.asdict(r) | row for r, row in zip(records, table.data(), strict=True)],
        json_=json_,
    )
    say(notes, json_=json_)


def say(sentences: Sequence[str], *, json_: bool) -> None:
    """Print sentences below a table; with ``--json`` print them on standard error."""
    for sentence in sentences:
        click.echo(sentence, err=json_)


def _changes(store: Store, since_s: float) -> list[str]:
    if not store.learning.of_all(1):
        return []
    from berth.plugin.learning.shown import changes_since  # noqa: PLC0415 - numpy

    changes = changes_since(store, since_s)
    return [*changes.sentences, *changes.bound]
