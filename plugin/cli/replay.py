"""``berth replay``: what would have happened to past jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.cli.where import find_site
from berth.plugin.history.files import SWF, lines_of, read_past_jobs
from berth.plugin.history.reading import Read, summary
from berth.plugin.replay.clusters import cluster_of
from berth.plugin.replay.shown import as_json, counted, table
from berth.plugin.replay.traces import trace_of_jobs
from berth.plugin.scheduler.registry import SCHEDULERS
from berth.policies.replay import Cluster, Multifactor, Settings, Trace, metrics, one_pool, replay
from berth.policies.replay.changes import changed
from berth.policies.replay.settings import Backfill

_DAY_S = 86_400.0
_MODES = [mode.value for mode in Backfill]


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--site", "site_file", type=click.Path(path_type=Path), envvar="BERTH_SITE",
              help="Site file with the cluster's nodes.")  # fmt: skip
@click.option("--cores", type=click.IntRange(1), help="Without a site: one pool of so many cores.")
@click.option("--format", "format_", type=click.Choice((*SCHEDULERS.names(), SWF)),
              help="Of TRACE. Default: by its first line.")  # fmt: skip
@click.option("--utc", is_flag=True, help="Times in sacct's TRACE are UTC, not local.")
@click.option("--strict", is_flag=True, help="Refuse a TRACE with a broken line.")
@click.option("--backfill", "backfills", multiple=True, type=click.Choice(_MODES),
              help="Several times: side by side. Default: easy.")  # fmt: skip
@click.option("--fair-share", type=click.FloatRange(min=0, min_open=True),
              help="Multifactor priority; half-life of usage in days.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change the cluster, for example nodes.KIND.count=+4.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0, min_open=True),
              help="Only the first so many days of TRACE.")  # fmt: skip
@click.option("--no-kill", is_flag=True, help="Jobs run on past their time limit.")
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def replay_command(
    trace: Path,
    *,
    site_file: Path | None,
    cores: int | None,
    format_: str | None,
    utc: bool,
    strict: bool,
    backfills: Sequence[str],
    fair_share: float | None,
    changes: Sequence[str],
    days: float | None,
    no_kill: bool,
    json_: bool,
) -> None:
    """Replay past jobs from TRACE on the site's nodes, under one scheduler or several.

    TRACE is what sacct or Flux wrote, or in the Standard Workload Format, packed by gzip or not.
    With --set every replay is shown with and without the changes.

    \b
    Example:
      berth replay ricc.swf.gz --cores 8192 --backfill easy --backfill fcfs
      berth replay jobs.txt --site berth.toml --set nodes.gpu.count=+4
    """
    read = _read(trace, format_, utc=utc, strict=strict)
    jobs = trace_of_jobs(read.jobs.values())
    if days is not None:
        jobs = jobs.between(0.0, days * _DAY_S)
    cluster, jobs = _cluster(site_file, cores, jobs)
    found = []
    for name, one, settings in _variants(cluster, changes, backfills, fair_share, no_kill=no_kill):
        found.append((name, metrics(replay(jobs, one, settings))))
    if json_:
        replays = [as_json(name, one) for name, one in found]
        report = {"broken": read.broken, "examples": read.examples, "not_ended": read.not_ended}
        click.echo(json.dumps({"trace": str(trace), **report, "replays": replays}, indent=2))
        return
    for line in [*summary(read), *counted(found[0][1].counts)]:
        click.echo(line)
    click.echo(table(found))


def _read(trace: Path, format_: str | None, *, utc: bool, strict: bool) -> Read:
    formats = [] if format_ is None else [format_]
    read = read_past_jobs(lines_of(trace), str(trace), "replay", formats, utc=utc)
    if strict and read.broken:
        raise DocumentError(
            trace, f"{read.broken} lines are broken, first {read.examples[0]}",
            hint="leave out --strict to skip them",
        )  # fmt: skip
    if not read.jobs:
        raise DocumentError(trace, "holds no job that ran")
    return read


def _cluster(site_file: Path | None, cores: int | None, jobs: Trace) -> tuple[Cluster, Trace]:
    if cores is not None:
        return one_pool(cores), replace(jobs, queue=jobs.queue * 0, queues=("all",))
    site = find_site(site_file)
    if site is None:
        raise UsageError("replay on which machine?", hint="give --site FILE or --cores N")
    return cluster_of(site).cluster, jobs


def _variants(
    cluster: Cluster,
    changes: Sequence[str],
    backfills: Sequence[str],
    fair_share: float | None,
    *,
    no_kill: bool,
) -> list[tuple[str, Cluster, Settings]]:
    priority = None if fair_share is None else Multifactor(half_life_s=fair_share * _DAY_S)
    found = []
    for backfill in backfills or [Backfill.EASY.value]:
        settings = Settings(Backfill(backfill), priority, kill_at_limit=not no_kill)
        found.append((backfill, cluster, settings))
        if changes:
            found.append((f"{backfill}, changed", changed(cluster, changes), settings))
    return found
