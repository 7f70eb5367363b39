"""``berth jobs outcomes``: predicted against real times of jobs that have run."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import format_elapsed, format_ended, format_seconds
from berth.plugin.cli.jobs.gain import gain_text, gains_of
from berth.plugin.cli.options.where import find_site, open_store, store_options
from berth.plugin.cli.output.columns import columns
from berth.plugin.outcomes.accuracy import (
    GROUPS,
    MOST_COUNTED,
    Accuracy,
    is_inside,
    newest_jobs,
    newest_only,
    real_over_predicted,
    summarise,
)
from berth.plugin.store import OutcomeRecord, Store

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
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
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
    if jobs:
        newest = store.outcomes.last(since_s, until_s, last)
        _show(newest, lambda: _jobs(newest, short=short), store, since_s, days, json_=json_)
        if len(newest) == last:
            every = store.outcomes.count(since_s, until_s, MOST_COUNTED)
            _say(newest_only("jobs", last, every, "shown: --last"), json_=json_)
        return
    found, ended = newest_jobs(store, since_s, until_s)
    if gain:
        from berth.plugin.outcomes.gain import MOST  # noqa: PLC0415 - numpy

        saved = gains_of(store, found, find_site(site_file), against)
        click.echo(json.dumps(dataclasses.asdict(saved), indent=2) if json_ else gain_text(saved))
        _say(newest_only("jobs", min(len(found), MOST), ended), json_=json_)
        return
    rows = summarise(found, by)
    _show(rows, lambda: _summary(rows, by), store, since_s, days, json_=json_)
    _say(newest_only("jobs", len(found), ended), json_=json_)


def _show(
    rows: Sequence[OutcomeRecord] | Sequence[Accuracy],
    text: Callable[[], str],
    store: Store,
    since_s: float,
    days: float,
    *,
    json_: bool,
) -> None:
    if json_:
        click.echo(json.dumps([_plain(row) for row in rows], indent=2))
    elif not rows:
        click.echo(f"no job that was decided upon has ended in the last {days:g} days")
    else:
        click.echo(text())
        _say(_changes(store, since_s), json_=False)


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


def _plain(row: OutcomeRecord | Accuracy) -> dict[str, object]:
    data = dataclasses.asdict(row)
    return data | {"verdict": row.verdict} if isinstance(row, Accuracy) else data


ACCURACY = (
    "", "ENDED", "COMPARED", "TIMEOUTS", "MEDIAN ERROR", "90 % OF THEM", "REAL/PREDICTED",
    "INSIDE 90 %", "VERDICT",
)  # fmt: skip
"""Titles of ``accuracy_cells``; the first is what is summed up by."""


def accuracy_cells(row: Accuracy) -> tuple[str, ...]:
    """One group's line."""
    return (
        row.name,
        str(row.jobs),
        str(row.compared),
        str(row.timeouts),
        _percent(row.median_error),
        "-" if row.p90_error is None else f"under {_percent(row.p90_error)}",
        "-" if row.bias is None else f"{row.bias:.2f}",
        _coverage(row),
        row.verdict,
    )


def _summary(rows: list[Accuracy], by: str) -> str:
    return columns((by.upper(), *ACCURACY[1:]), [accuracy_cells(row) for row in rows], indent=0)


def _coverage(row: Accuracy) -> str:
    if row.coverage is None or row.coverage_low is None or row.coverage_high is None:
        return "-"
    return f"{row.coverage:.0%} ({row.coverage_low:.0%} to {row.coverage_high:.0%})"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


_JOBS = ("JOB", "USER", "QUEUE", "STATE", "PROFILE", "PLATFORM", "PREDICTED", "RAN", "ERROR")
_SHORT = ("JOB", "USER", "STATE", "RAN", "ERROR")


def _jobs(found: list[OutcomeRecord], *, short: bool) -> str:
    titles = _SHORT if short else _JOBS
    shown = [_JOBS.index(title) for title in titles]
    rows = [[row[i] for i in shown] for row in map(_job_cells, found)]
    return columns(titles, rows, indent=0)


def _job_cells(outcome: OutcomeRecord) -> tuple[str, ...]:
    """One line, under ``_JOBS``."""
    return (
        outcome.job_id,
        outcome.user,
        outcome.queue or "-",
        outcome.state,
        outcome.workload or "-",
        outcome.platform or "-",
        predicted_time(outcome),
        _time(outcome.elapsed_s),
        error(outcome),
    )


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else format_elapsed(seconds)


def predicted_time(outcome: OutcomeRecord) -> str:
    """``60 s (50 s to 72 s)``; ``-`` where nothing was predicted."""
    low_s, mid_s, high_s = (
        outcome.predicted_low_s,
        outcome.predicted_s,
        outcome.predicted_high_s,
    )
    if low_s is None or mid_s is None or high_s is None:
        return "-"
    return f"{format_seconds(mid_s)} ({format_seconds(low_s)} to {format_seconds(high_s)})"


def error(outcome: OutcomeRecord) -> str:
    """``+3 %``, and ``outside`` where the interval did not hold; ``-`` without a comparison."""
    found = real_over_predicted(outcome)
    if found is None:
        return "-"
    return f"{found - 1:+.0%}" + ("" if is_inside(outcome) else " outside")


def in_a_line(outcome: OutcomeRecord) -> str:
    """What became of a job, for the explanation of its decision."""
    text = f"job {outcome.job_id}: {outcome.state}"
    if outcome.elapsed_s is not None:
        text += f" {format_ended(outcome.elapsed_s)}"
    if outcome.queue:
        text += f" in {outcome.queue}"
    if outcome.predicted_s is not None:
        text += f", predicted {predicted_time(outcome)}"
    compared = error(outcome)
    return text if compared == "-" else f"{text}: {compared}"
