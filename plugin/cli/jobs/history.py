"""``berth jobs history``: reads past jobs from accounting, from which new jobs are predicted."""

from __future__ import annotations

import time
from pathlib import Path

import click

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.options import PATH, answer, json_option, store_options
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.disagreements import of_accounting, sentences
from berth.plugin.history.files import lines_of, read_past_jobs
from berth.plugin.history.seen_nodes import present_node_kinds
from berth.plugin.history.workloads import HistorySummary, make_workloads
from berth.plugin.installed_site import Installation
from berth.plugin.right_sizing.needs import learn_needs
from berth.plugin.scheduler.node_kinds import UnknownPlatform
from berth.plugin.scheduler.past_jobs import ENDED, ReadJobs, summary, why_none
from berth.plugin.scheduler.registry import open_scheduler, site_scheduler
from berth.plugin.site.programs import SHIPPED_ONLY
from berth.plugin.site.site import Site

_DAY_S = 86_400.0
_OVERLAP_S = 3_600.0
"""Accounting can record a job this many seconds late, so an import reads this much of the last
period again."""


@click.group()
def history() -> None:
    """Past jobs of the site: import them, so that jobs nobody piloted are predicted.

    \b
    Example:
      berth jobs history import --days 30   # asks the scheduler
      berth jobs history import accounting.txt
    """


@history.command(name="import")
@click.argument("file", required=False, type=PATH)
@click.option("--days", type=click.FloatRange(min=0), default=30.0,
              help="Ask for so many days the first time; later only for what is new.")  # fmt: skip
@click.option("--cluster", help="Name under which job ids are unique, also within a file of "
              "several clusters. Default: the site's.")  # fmt: skip
@click.option("--utc", is_flag=True, help="Times in sacct's FILE are UTC, not local.")
@json_option
@store_options
def import_(
    file: Path | None,
    *,
    days: float,
    cluster: str | None,
    utc: bool,
    json_: bool,
    installation: Installation,
) -> None:
    """Store the jobs of FILE, or of the running scheduler, and predict from them.

    The same job twice is once; lines that cannot be read are counted and shown. With a site file
    each user's jobs become workloads, so that the next job of the same script, or of the same user
    and name, is predicted and placed without a pilot.

    \b
    Example:
      berth jobs history import --days 30   # asks the scheduler
      berth jobs history import jobs.txt    # of this command:
      sacct -a -P --noconvert -S 2026-10-01 -o JobID,User,Account,Partition,State,Submit,Start,\\
        End,ElapsedRaw,TimelimitRaw,AllocCPUS,NNodes,NTasks,ReqMem,MaxRSS,AllocTRES,NodeList,\\
        TRESUsageInMax,TRESUsageInAve,TotalCPU,AdminComment,JobName > jobs.txt
      berth jobs history import trace.swf --store /tmp/store.sqlite
    """
    site = installation.site()
    named = cluster or (site.name if site else "site")
    if file is None:
        scheduler, store = site_scheduler(site), installation.store()
        newest_s = store.past_jobs.newest_end_s(named)
        since_s = time.time() - days * _DAY_S if newest_s is None else newest_s - _OVERLAP_S
        read = scheduler.past_jobs(named, since_s)
        scheduler.add_scripts(read)
    else:
        read, store = _read_file(file, named, utc=utc), installation.store()
    before = store.past_jobs.count()
    store.usages.rename(named, {job.raw_id: job.job_id for job in read.jobs.values() if job.raw_id})
    read.name_programs(SHIPPED_ONLY if site is None else site.programs)
    store.past_jobs.put(list(read.jobs.values()))
    store.usages.put(read.usages)
    new = store.past_jobs.count() - before
    learn_needs(store, time.time())
    workloads = None if site is None else _workloads(site, installation)
    lines = [f"{len(read.jobs)} jobs that ran, {new} of them new ({store.name})", *summary(read)]
    recorded = {
        one.job_id: (one, of_accounting(job))
        for one in read.usages
        if (job := read.jobs.get(one.job_id)) is not None
    }
    lines += sentences(recorded)
    lines += _predicting(workloads)
    answer("\n".join(lines), _as_json(read, new, workloads), json_=json_)


def _read_file(file: Path, cluster: str, *, utc: bool) -> ReadJobs:
    """Return the jobs of a file. Raises DocumentError, also where no job in it has run."""
    read = read_past_jobs(lines_of(file), str(file), cluster, utc=utc)
    if not read.jobs:
        raise DocumentError(file, why_none(read), hint=ENDED)
    return read


@history.command()
@json_option
@store_options
def refresh(*, json_: bool, installation: Installation) -> None:
    """Predict anew from the stored jobs and from what became of jobs that Berth decided upon.

    \b
    Example:
      berth jobs history refresh
    """
    site = installation.site()
    if site is None:
        raise UsageError("without a site file no queue has a platform", hint="give --site FILE")
    workloads = _workloads(site, installation, create=False)
    learn_needs(installation.store(create=False), time.time())
    written = {
        "workloads": workloads.workloads,
        "runs": workloads.runs,
        "unplaced": unplaced_by_name(workloads),
    }
    answer("\n".join(_predicting(workloads)), written, json_=json_)


def _predicting(workloads: HistorySummary | None) -> list[str]:
    """Return sentences on the workloads that later jobs are predicted from; ``workloads`` is
    None without a site file."""
    if workloads is None:
        return ["no site file: nothing is predicted of them yet (--site FILE)"]
    lines = [f"{workloads.workloads} workloads from {workloads.runs} runs predict the next jobs"]
    lines += [f"{count} {reason}" for reason, count in workloads.unplaced.items()]
    if UnknownPlatform.UNKNOWN_NODES in workloads.unplaced and not workloads.knows_nodes:
        lines.append(
            "  no scheduler answers here to say which nodes there are: where one does, run berth "
            "jobs history refresh"
        )
    return lines


def _workloads(site: Site, installation: Installation, *, create: bool = True) -> HistorySummary:
    store = installation.store(create=create)
    return make_workloads(
        store,
        site,
        forecaster=forecaster_for(site),
        platforms=platforms_for(site),
        kinds=present_node_kinds(store, site, open_scheduler(site), time.time()),
    )


def unplaced_by_name(workloads: HistorySummary) -> dict[str, int]:
    """Return the number of jobs whose platform is not known, by the reason in one word."""
    return {
        reason.name.lower().replace("_", "-"): workloads.unplaced.get(reason, 0)
        for reason in UnknownPlatform
    }


def _as_json(read: ReadJobs, new: int, workloads: HistorySummary | None) -> dict[str, object]:
    return {
        "jobs": len(read.jobs),
        "new": new,
        "repeated": read.repeated,
        "not_ended": read.not_ended,
        "broken": read.broken,
        "examples": read.examples,
        "workloads": None if workloads is None else workloads.workloads,
        "runs": None if workloads is None else workloads.runs,
        "unplaced": None if workloads is None else unplaced_by_name(workloads),
    }
