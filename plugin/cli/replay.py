"""``berth replay``: what would have happened to past jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.cli.replay_live import show_live
from berth.plugin.cli.where import find_site
from berth.plugin.history.reading import summary
from berth.plugin.replay.clusters import SiteCluster, cluster_of
from berth.plugin.replay.past import FORMATS, past_jobs
from berth.plugin.replay.placed import over_seeds, placed
from berth.plugin.replay.shown import as_json, counted, table
from berth.policies.objectives import OBJECTIVES
from berth.policies.replay import Cluster, Multifactor, Settings, Trace, metrics, one_pool, replay
from berth.policies.replay.changes import changed
from berth.policies.replay.settings import Backfill
from berth.policies.settings import PolicySettings

_DAY_S = 86_400.0
_MODES = [mode.value for mode in Backfill]


@click.command()
@click.argument("trace", type=click.Path(path_type=Path), required=False)
@click.option("--live", is_flag=True, help="The present queue in place of a TRACE.")
@click.option("--site", "site_file", type=click.Path(path_type=Path), envvar="BERTH_SITE",
              help="Site file with the cluster's nodes.")  # fmt: skip
@click.option("--cores", type=click.IntRange(1), help="Without a site: one pool of so many cores.")
@click.option("--format", "format_", type=click.Choice(FORMATS),
              help="Of TRACE. Default: by its first line.")  # fmt: skip
@click.option("--utc", is_flag=True, help="Times in sacct's TRACE are UTC, not local.")
@click.option("--strict", is_flag=True, help="Refuse a TRACE with a broken line.")
@click.option("--backfill", "backfills", multiple=True, type=click.Choice(_MODES),
              help="Several times: side by side. Default: easy.")  # fmt: skip
@click.option("--fair-share", type=click.FloatRange(min=0, min_open=True),
              help="Multifactor priority; half-life of usage in days.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change the cluster, for example nodes.KIND.count=+4.")  # fmt: skip
@click.option("--policy", "policies", multiple=True, metavar="OBJECTIVE",
              help="Berth places each job by this objective; several: side by side.")  # fmt: skip
@click.option("--times", type=click.Path(path_type=Path), metavar="CSV",
              help="True run times elsewhere: job,platform,runtime_s.")  # fmt: skip
@click.option("--log-error", type=click.FloatRange(0, 5), default=0.0, show_default=True,
              help="Predictions are these times with an error so large, in log.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="Draws of that error; the range over them is shown.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0, min_open=True),
              help="Only the first so many days of TRACE.")  # fmt: skip
@click.option("--no-kill", is_flag=True, help="Jobs run on past their time limit.")
@click.option("--store", "store_url", envvar="BERTH_STORE",
              help="For --live. Default: the site file's.")  # fmt: skip
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def replay_command(
    trace: Path | None,
    *,
    live: bool,
    site_file: Path | None,
    cores: int | None,
    format_: str | None,
    utc: bool,
    strict: bool,
    backfills: Sequence[str],
    fair_share: float | None,
    changes: Sequence[str],
    policies: Sequence[str],
    times: Path | None,
    log_error: float,
    seeds: int,
    days: float | None,
    no_kill: bool,
    store_url: str | None,
    json_: bool,
) -> None:
    """Replay past jobs from TRACE on the site's nodes, under one scheduler or several.

    TRACE is what sacct or Flux wrote, or in the Standard Workload Format, a trace of Gavel's, or
    a table as berth tune takes it, packed by gzip or not.
    With --set every replay is shown with and without the changes.

    With --live the jobs that run and wait now are replayed forward, on the nodes as they
    are: when each starts, with intervals, under the present way and under each --policy.

    \b
    Example:
      berth replay ricc.swf.gz --cores 8192 --backfill easy --backfill fcfs
      berth replay jobs.txt --site berth.toml --set nodes.gpu.count=+4
      berth replay --live --policy fastest
    """
    if live:
        _check_live(trace, cores, changes, times)
        show_live(site_file, store_url, backfills, policies, json_=json_)
        return
    if trace is None:
        raise UsageError("replay which jobs?", hint="name a TRACE, or say --live")
    past = past_jobs(trace, format_, times, utc=utc, strict=strict)
    read, jobs = past.read, past.trace
    if days is not None:
        jobs = jobs.between(0.0, days * _DAY_S)
    place, jobs = _cluster(site_file, cores, jobs)
    objectives = [_objective(place, jobs, name) for name in policies]
    found = []
    for name, cluster, settings in _variants(
        place.cluster, changes, backfills, fair_share, no_kill=no_kill
    ):
        where = replace(place, cluster=cluster)
        if not objectives or len(jobs.queues) > 1 or not np.all(np.isnan(jobs.runtime_s)):
            found.append((name, metrics(replay(jobs, cluster, settings))))
        for policy in objectives:
            drawn = [
                placed(jobs, where, settings, policy, log_error=log_error, seed=seed)
                for seed in range(seeds)
            ]
            found += [(f"{name}, {policy.objective}", over_seeds(drawn))]
    if json_:
        replays = [as_json(name, one) for name, one in found]
        report = {"broken": read.broken, "examples": read.examples, "not_ended": read.not_ended}
        click.echo(json.dumps({"trace": str(trace), **report, "replays": replays}, indent=2))
        return
    for line in [*summary(read), *counted(found[0][1].counts)]:
        click.echo(line)
    click.echo(table(found))


def _check_live(
    trace: Path | None, cores: int | None, changes: Sequence[str], times: Path | None
) -> None:
    """Raises UsageError for options that a live replay does not have."""
    given = {"a TRACE": trace, "--cores": cores, "--set": changes or None, "--times": times}
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--live replays the present queue, without {name}")


def _objective(place: SiteCluster, jobs: Trace, name: str) -> PolicySettings:
    if place.site is None:
        raise UsageError("--policy places jobs on the site's candidates", hint="give --site FILE")
    if not jobs.runtime_on:
        raise UsageError(
            "--policy needs run times on the candidates' platforms", hint="give --times CSV"
        )
    OBJECTIVES.load(name)
    return replace(place.site.policy, objective=name)


def _cluster(site_file: Path | None, cores: int | None, jobs: Trace) -> tuple[SiteCluster, Trace]:
    if cores is not None:
        one = replace(jobs, queue=jobs.queue * 0, queues=("all",))
        return SiteCluster(one_pool(cores), {}), one
    site = find_site(site_file)
    if site is None:
        raise UsageError("replay on which machine?", hint="give --site FILE or --cores N")
    return cluster_of(site), jobs


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
