"""``berth history``: past jobs from accounting, as what new jobs are predicted from."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.where import find_site, open_store, store_options
from berth.plugin.forecasting import forecaster_for, platforms_for
from berth.plugin.history.flux_jobs import read_flux
from berth.plugin.history.reading import Read, summary, text_of
from berth.plugin.history.sacct import COLUMNS, read_sacct
from berth.plugin.history.swf import read_swf
from berth.plugin.history.workloads import Made, make_workloads
from berth.plugin.site.site import Site

_DAY_S = 86_400.0
_OVERLAP_S = 3_600.0
"""Accounting may tell of a job this much later."""
_QUERY_TIMEOUT_S = 600.0


@click.group()
def history() -> None:
    """Past jobs of the site: import them, so that jobs nobody piloted are predicted.

    \b
    Example:
      berth history import --slurm --days 30
      berth history import accounting.txt
    """


@history.command(name="import")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--slurm", is_flag=True, help="Ask sacct; or FILE is its parsable output.")
@click.option("--flux", is_flag=True, help="Ask flux jobs; or FILE is its JSON.")
@click.option("--swf", is_flag=True, help="FILE is in the Standard Workload Format.")
@click.option("--days", type=click.FloatRange(min=0), default=30.0, show_default=True,
              help="Asked of a scheduler the first time; later only what is new.")  # fmt: skip
@click.option("--cluster", help="Name that job ids are unique under. Default: the site's.")
@click.option("--utc", is_flag=True, help="Times in sacct's FILE are UTC, not local.")
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
@store_options
def import_(
    file: Path | None,
    *,
    slurm: bool,
    flux: bool,
    swf: bool,
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
      sacct -a -P --noconvert -S 2026-10-01 -o JobID,User,Account,Partition,State,Submit,Start,\\
        End,ElapsedRaw,TimelimitRaw,AllocCPUS,NNodes,NTasks,ReqMem,MaxRSS,JobName > jobs.txt
      berth history import jobs.txt
      berth history import --swf trace.swf --store /tmp/store.sqlite
    """
    if slurm + flux + swf > 1:
        raise UsageError("give one of --slurm, --flux and --swf")
    if file is None and not (slurm or flux):
        raise UsageError(
            "nothing to import", hint="give FILE, or --slurm or --flux to ask the scheduler"
        )
    site = find_site(site_file)
    store = open_store(site_file, store_url)
    named = cluster or (site.name if site else "site")
    before = store.past_jobs.count()
    if file is None:
        since_s = store.past_jobs.newest_end_s(named)
        read = _asked(named, since_s, days, slurm=slurm)
    else:
        read = _from_file(file, named, slurm=slurm, flux=flux, swf=swf, utc=utc)
    store.past_jobs.put(list(read.jobs.values()))
    new = store.past_jobs.count() - before
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
    click.echo(f"{made.workloads} workloads from {made.runs} runs predict the next jobs")
    if made.unplaced:
        click.echo(
            f"{made.unplaced} jobs ran in queues that the site file has no single platform for"
        )


@history.command()
@store_options
def refresh(*, site_file: Path | None, store_url: str | None) -> None:
    """Predict anew from the stored jobs and from what became of jobs that Berth decided upon.

    \b
    Example:
      berth history refresh
    """
    site = find_site(site_file)
    if site is None:
        raise UsageError("without a site file no queue has a platform", hint="give --site FILE")
    made = _workloads(site, site_file, store_url)
    click.echo(f"{made.workloads} workloads from {made.runs} runs predict the next jobs")


def _workloads(site: Site, site_file: Path | None, store_url: str | None) -> Made:
    store = open_store(site_file, store_url)
    return make_workloads(
        store, site, forecaster=forecaster_for(site), platforms=platforms_for(site)
    )


def _asked(cluster: str, since_s: float | None, days: float, *, slurm: bool) -> Read:
    now_s = time.time()
    begin_s = now_s - days * _DAY_S if since_s is None else since_s - _OVERLAP_S
    if slurm:
        from berth.plugin.slurm import commands  # noqa: PLC0415

        begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(begin_s, 0.0)))
        end = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s + 1.0))
        text = commands.run(
            ("sacct", "-a", "-P", "--noconvert", "-S", begin, "-E", end, "-o", ",".join(COLUMNS)),
            timeout_s=_QUERY_TIMEOUT_S,
            utc=True,
        )
        return read_sacct(text.split("\n"), cluster, source="sacct", utc=True)
    from berth.plugin.flux import commands as flux_commands  # noqa: PLC0415

    text = flux_commands.run(
        "jobs", "-A", "-a", "--json", "--count=0", f"--since={begin_s:.0f}",
        timeout_s=_QUERY_TIMEOUT_S,
    )  # fmt: skip
    return read_flux(text, cluster, source="flux jobs")


def _from_file(file: Path, cluster: str, *, slurm: bool, flux: bool, swf: bool, utc: bool) -> Read:
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise DocumentError(file, "does not exist") from None
    except OSError as error:
        raise DocumentError(file, f"cannot be read: {error.strerror}") from None
    lines = [text_of(line) for line in data.split(b"\n")]
    first = next((line.strip() for line in lines if line.strip()), "")
    if not (slurm or flux or swf):
        flux = first.startswith("{")
        swf = not flux and "|" not in first
    if flux:
        return read_flux("\n".join(lines), cluster, source=str(file))
    if swf:
        return read_swf(lines, cluster)
    return read_sacct(lines, cluster, source=str(file), utc=utc)


def _as_json(read: Read, new: int, made: Made | None) -> dict[str, object]:
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
