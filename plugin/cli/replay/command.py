"""``berth replay``: simulates past jobs under other policies, schedulers or clusters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.plugin.cli.replay.options import ReplayOptions, replay_options
from berth.plugin.installed_site import Installation
from berth.plugin.replay.clusters import SiteCluster, cluster_of, on_cluster
from berth.plugin.replay.past import PastTrace, asked_jobs, past_jobs
from berth.plugin.replay.queue_replay import live_replays
from berth.plugin.replay.tables import with_own_times
from berth.plugin.replay.truth import (
    FORECASTS,
    OUTCOMES,
    TIMES,
    Truth,
    Variant,
    VariantReplays,
    replays_of,
    truth_of,
)
from berth.plugin.report.of_queue import queue_data, queue_report
from berth.plugin.report.of_replay import (
    counted,
    figures_data,
    replay_report,
    replays_report,
    unknown_partitions,
    users_data,
)
from berth.plugin.report.terminal import report_text
from berth.plugin.scheduler.past_jobs import summary
from berth.plugin.site_file import find_site
from berth.policies.objectives import OBJECTIVES
from berth.policies.replay import Settings, Trace, one_pool
from berth.policies.replay.changes import changed
from berth.policies.replay.settings import Backfill
from berth.policies.settings import PolicySettings

_DAY_S = 86_400.0
MOST_STARTS = 20
"""Maximum number of the present queue's jobs whose start is printed."""


@click.command()
@replay_options
def replay_command(options: ReplayOptions) -> None:
    """Replay past jobs from TRACE on the site's nodes, under one scheduler or several.

    TRACE (gzip or not): of sacct or Flux, Standard Workload Format, of Alibaba (openb), or
    a table as `berth replay tune` takes it. With --set every replay is shown with and without the
    changes. The first column is what the others are compared with, user by user.

    --live: when each job that waits now will start, with intervals, by the present way and by each
    --policy.

    \b
    Example:
      berth replay ricc.swf.gz --cores 8192 --backfill easy --backfill fcfs
      berth replay jobs.txt --site berth.toml --set nodes.gpu.count=+4
      berth replay --accounting --days 30 --site berth.toml
      berth replay --live --policy fastest
    """
    if options.live:
        _check_live(options)
        live = live_replays(
            find_site(options.site_file),
            Installation(options.site_file, options.store_url).view_if_any(),
            options.backfills,
            options.policies,
        )
        report = queue_report(live, None, most_jobs=MOST_STARTS, pictures=False)
        click.echo(json.dumps(queue_data(live), indent=2) if options.json_ else report_text(report))
        return
    past = _past(options)
    jobs = past.trace
    if options.days is not None and not options.accounting:
        jobs = jobs.between(0.0, options.days * _DAY_S)
    place, jobs = _cluster(options, jobs)
    truth = _truth(options, jobs, place)
    variants = _variants(options, place, jobs)
    found = list(replays_of(jobs, variants, truth, options.seeds))
    if not any(one.metrics.counts.replayed for one in found):
        why = "; ".join(counted(found[0].metrics.counts)[1:])
        hint = "is it the machine that they ran on? --cores N, or nodes with GPUs: --site FILE"
        lacking = "; ".join(unknown_partitions(found[0].replays[0]))
        raise UsageError(
            f"no job of {past.source} can run on this machine: {why}", hint=lacking or hint
        )
    if options.html is not None:
        _write_html(options.html, past, found)
    if options.json_:
        replays = [
            {
                **figures_data(one.name, one.metrics),
                "failure": one.failure,
                "users": users_data(found[0], one),
            }
            for one in found
        ]
        document = {
            "broken": past.read.broken, "examples": past.read.examples,
            "not_ended": past.read.not_ended, "changed": past.read.changed,
            "known_elsewhere": dict(truth.known),
        }  # fmt: skip
        click.echo(json.dumps({"trace": past.source, **document, "replays": replays}, indent=2))
        return
    if options.html is not None:
        click.echo(f"The report is in {options.html}.")
    notes = [*summary(past.read), *counted(found[0].metrics.counts)]
    if options.policies:
        notes += [
            f"times elsewhere by {source}: known of {count} jobs"
            for source, count in truth.known.items()
        ]
    report = replays_report(found, notes)
    click.echo(report_text(report))


def _past(options: ReplayOptions) -> PastTrace:
    if options.accounting:
        if options.trace is not None:
            raise UsageError("--accounting asks the scheduler, without a TRACE")
        site = find_site(options.site_file)
        return asked_jobs(site, options.days or 30.0, options.times)
    if options.trace is None:
        raise UsageError("replay which jobs?", hint="name a TRACE, or say --accounting or --live")
    return past_jobs(options.trace, options.times, utc=options.utc)


def _write_html(path: Path, past: PastTrace, found: Sequence[VariantReplays]) -> None:
    """Write an HTML report of the first simulation of each variant; without matplotlib it has no
    pictures."""
    from berth.plugin.report import html as page  # noqa: PLC0415 - slow only where used

    counts = [*summary(past.read), *counted(found[0].metrics.counts)]
    report = replay_report(Path(past.source).name, found, counts)
    write_text(path, page.html(report, made_by="berth replay"))


def _check_live(options: ReplayOptions) -> None:
    """Raises UsageError for options that do not apply to a live replay."""
    given = {
        "a TRACE": options.trace, "--accounting": options.accounting or None,
        "--cores": options.cores, "--set": options.changes or None, "--times": options.times,
        "--truth": options.truth or None, "--html": options.html,
    }  # fmt: skip
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--live replays the present queue, without {name}")


def _cluster(options: ReplayOptions, jobs: Trace) -> tuple[SiteCluster, Trace]:
    if options.cores is not None:
        one = replace(jobs, queue=jobs.queue * 0, queues=("all",))
        return SiteCluster(one_pool(options.cores), {}), one
    site = find_site(options.site_file)
    if site is None:
        raise UsageError("replay on which machine?", hint="give --site FILE or --cores N")
    place = cluster_of(site)
    return place, with_own_times(jobs, place.cluster)


def _truth(options: ReplayOptions, jobs: Trace, place: SiteCluster) -> Truth:
    if not options.policies:
        return Truth(jobs)
    if place.site is None:
        raise UsageError("--policy places jobs on the site's candidates", hint="give --site FILE")
    sources = options.truth or ([TIMES] if jobs.runtime_on else [])
    if not sources or (TIMES in sources and not jobs.runtime_on):
        raise UsageError(
            "--policy needs run times on the candidates' platforms",
            hint="give --times CSV, or say --truth history, outcomes or forecasts",
        )
    store = None
    if {OUTCOMES, FORECASTS} & set(sources):
        store = Installation(options.site_file, options.store_url).reading()
    found = truth_of(jobs, place.cluster, sources, store=store)
    if not any(found.known.values()):
        raise UsageError(
            f"{', '.join(sources)} know of no job how long it takes on another platform",
            hint="give a table with --times CSV",
        )
    return found


def _variants(options: ReplayOptions, place: SiteCluster, jobs: Trace) -> list[Variant]:
    """Return the variants to simulate: each backfill method on the original and the changed
    cluster, and under each policy."""
    there = [("", place)]
    if options.changes:
        after = changed(place.cluster, options.changes)
        there.append((", changed", on_cluster(place, after)))
    # Jobs without a run time on the submitted partition can run only where a policy sends them.
    plain = not options.policies or len(jobs.queues) > 1 or not np.all(np.isnan(jobs.runtime_s))
    found = []
    for backfill in options.backfills or [Backfill.EASY.value]:
        settings = Settings(Backfill(backfill))
        for words, one in there:
            name = f"{backfill}{words}"
            found += [Variant(name, one, settings)] if plain else []
            for policy in options.policies:
                asked = _objective(place, policy)
                found.append(Variant(f"{name}, {policy}", one, settings, asked))
    return found


def _objective(place: SiteCluster, name: str) -> PolicySettings:
    OBJECTIVES.load(name)
    before = PolicySettings() if place.site is None else place.site.policy
    return before.model_copy(update={"objective": name})
