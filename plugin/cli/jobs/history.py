"""``berth jobs history``: past jobs from accounting, as what new jobs are predicted from."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.options import answer, json_option, store_options
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.files import SWF, lines_of, read_past_jobs
from berth.plugin.history.reading import ReadJobs, summary
from berth.plugin.history.workloads import HistorySummary, make_workloads
from berth.plugin.installed_site import find_site, open_store
from berth.plugin.right_sizing.needs import learn_needs
from berth.plugin.scheduler.registry import SCHEDULERS, scheduler_named
from berth.plugin.site.site import Site

_DAY_S = 86_400.0
_OVERLAP_S = 3_600.0
"""Accounting may tell of a job this much later."""


def _formats(command: Callable[..., None]) -> Callable[..., None]:
    """A flag for each scheduler's accounting, and one for SWF; given as ``formats``, by name."""
    names = SCHEDULERS.names()

    @functools.wraps(command)
    def collected(**given: Any) -> None:  # click's arguments
        formats = [name for name in (*names, SWF) if given.pop(name)]
        command(formats=formats, **given)

    found: Callable[..., None] = click.option(
        f"--{SWF}", is_flag=True, help="FILE is in the Standard Workload Format."
    )(collected)
    for name in reversed(names):
        found = click.option(
            f"--{name}",
            is_flag=True,
            help=f"Ask {name.title()}'s accounting; or FILE is its output.",
        )(found)
    return found


@click.group()
def history() -> None:
    """Past jobs of the site: import them, so that jobs nobody piloted are predicted.

    \b
    Example:
      berth jobs history import --slurm --days 30
      berth jobs history import accounting.txt
    """


@history.command(name="import")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_formats
@click.option("--days", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Ask for so many days the first time; later only for what is new.")  # fmt: skip
@click.option("--cluster", help="Name under which job ids are unique. Default: the site's.")
@click.option("--utc", is_flag=True, help="Times in sacct's FILE are UTC, not local.")
@json_option
@store_options
def import_(
    file: Path | None,
    *,
    formats: list[str],
    days: float,
    cluster: str | None,
    utc: bool,
    json_: bool,
    site_file: Path | None,
    store_url: str | None,
) -> None:
    """Store the jobs of FILE, or of the running scheduler, and predict from them.

    The same job twice is once; lines that cannot be read are counted and shown. With a site file
    each user's jobs become workloads, so that the next job of the same script, or of the same user
    and name, is predicted and placed without a pilot.

    \b
    Example:
      berth jobs history import --slurm --days 30
      berth jobs history import jobs.txt    # of this command:
      sacct -a -P --noconvert -S 2026-10-01 -o JobID,User,Account,Partition,State,Submit,Start,\\
        End,ElapsedRaw,TimelimitRaw,AllocCPUS,NNodes,NTasks,ReqMem,MaxRSS,JobName > jobs.txt
      berth jobs history import --swf trace.swf --store /tmp/store.sqlite
    """
    if len(formats) > 1:
        raise UsageError(f"give one of {' and '.join(f'--{name}' for name in formats)}")
    if file is None and formats in ([], [SWF]):
        flags = " or ".join(f"--{name}" for name in SCHEDULERS.names())
        raise UsageError("nothing to import", hint=f"give FILE, or {flags} to ask the scheduler")
    site = find_site(site_file)
    store = open_store(site_file, store_url)
    named = cluster or (site.name if site else "site")
    before = store.past_jobs.count()
    if file is None:
        newest_s = store.past_jobs.newest_end_s(named)
        since_s = time.time() - days * _DAY_S if newest_s is None else newest_s - _OVERLAP_S
        scheduler = scheduler_named(formats[0])
        read = scheduler.past_jobs(named, since_s)
        scheduler.add_scripts(read)
    else:
        read = read_past_jobs(lines_of(file), str(file), named, formats, utc=utc)
    store.past_jobs.put(list(read.jobs.values()))
    new = store.past_jobs.count() - before
    learn_needs(store, time.time())
    made = None if site is None else _workloads(site, site_file, store_url)
    if json_:
        click.echo(json.dumps(_as_json(read, new, made), indent=2))
        return
    click.echo(f"{len(read.jobs)} jobs that ran, {new} of them new ({store.name})")
    for line in summary(read):
        click.echo(line)
    if made is None:
        click.echo("no site file: nothing is predicted of them yet (--site FILE)")
        return
    click.echo(_predicting(made))
    if made.unplaced:
        click.echo(
            f"{made.unplaced} jobs ran in queues that the site file has no single platform for: "
            "nothing is predicted from those"
        )


@history.command()
@json_option
@store_options
def refresh(*, json_: bool, site_file: Path | None, store_url: str | None) -> None:
    """Predict anew from the stored jobs and from what became of jobs that Berth decided upon.

    \b
    Example:
      berth jobs history refresh
    """
    site = find_site(site_file)
    if site is None:
        raise UsageError("without a site file no queue has a platform", hint="give --site FILE")
    made = _workloads(site, site_file, store_url)
    learn_needs(open_store(site_file, store_url), time.time())
    answer(_predicting(made), dataclasses.asdict(made), json_=json_)


def _predicting(made: HistorySummary) -> str:
    return f"{made.workloads} workloads from {made.runs} runs predict the next jobs"


def _workloads(site: Site, site_file: Path | None, store_url: str | None) -> HistorySummary:
    store = open_store(site_file, store_url)
    return make_workloads(
        store, site, forecaster=forecaster_for(site), platforms=platforms_for(site)
    )


def _as_json(read: ReadJobs, new: int, made: HistorySummary | None) -> dict[str, object]:
    return {
        "jobs": len(read.jobs),
        "new": new,
        "repeated": read.repeated,
        "not_ended": read.not_ended,
        "broken": read.broken,
        "examples": read.examples,
        "workloads": None if made is None else made.workloads,
        "runs": None if made is None else made.runs,
        "unplaced": None if made is None else made.unplaced,
    }
