"""The replay that evaluates a tune's trials: a file's past jobs on the site's cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.replay.clusters import cluster_of, lacking_partitions, with_jobs
from berth.plugin.replay.past import PastTrace, past_jobs
from berth.plugin.scheduler.past_jobs import summary
from berth.plugin.site.site import Site
from berth.policies.replay import Backfill, Cluster, Settings, Trace
from berth.policies.replay.compiled import has_numba
from berth.policies.replay.predicted import ForecastColumns
from berth.policies.replay.trace import Floats
from berth.policies.tuning.trace_replayer import TraceReplayer
from berth.predictor.core.intervals import NORMAL_90

EXACT_SPREAD = 1.25
"""Ratio of the upper end of an interval to its middle for predictions whose errors are unknown."""
WORTH_COMPILING = 2_000
"""Least number of jobs for which compilation saves time, as a tune replays them dozens of times."""
FEWEST_ERRORS = 20
"""Least number of errors of one user's predictions from which the width of their intervals is
computed."""
OPTIONS = ("backfill", "times", "utc")


def open_replayer(site: Site, jobs: Path, options: Mapping[str, str]) -> TraceReplayer:
    """Return the replayer of a file's jobs with these options. Raises UsageError and
    DocumentError."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"--option: {unknown[0]!r} is not known", hint=f"known: {', '.join(OPTIONS)}"
        )
    try:
        backfill = Backfill(options.get("backfill", Backfill.EASY.value))
    except ValueError:
        known = ", ".join(choice.value for choice in Backfill)
        raise UsageError(
            f"--option backfill={options['backfill']} is not known", hint=f"known: {known}"
        ) from None
    utc = _said_yes(options, "utc")
    times = options.get("times")
    past = past_jobs(jobs, Path(times) if times else None, utc=utc)
    site_cluster = cluster_of(site)
    notes = summary(past.read)
    past = _there(past, site_cluster.cluster, jobs, notes)
    trace = _settled(past.trace, site_cluster.cluster, site)
    used = {candidate.platform for candidate in site.candidates}
    if not used & set(trace.runtime_on):
        raise UsageError(
            f"{jobs} has no times on a platform of {site.source}",
            hint=f"the site has: {', '.join(sorted(used))}",
        )
    for name, column in past.trace.runtime_on.items():
        if not np.isfinite(column).any():
            raise UsageError(
                f"{jobs} has no time on {name} of any job that could be replayed",
                hint="fill its column, or leave it out",
            )
    _check_movable(trace, site, jobs)
    return TraceReplayer(
        trace=trace,
        cluster=site_cluster.cluster,
        partition_of=site_cluster.partition_of,
        # The first parts of long traces are compiled too: compiling costs time only once.
        settings=Settings(
            backfill, compiled=(has_numba() and len(trace) >= WORTH_COMPILING) or None
        ),
        notes=tuple(notes),
        candidates=site.candidates,
        predictions=ForecastColumns(
            {**trace.runtime_on, **past.predicted},
            site.candidates,
            spread=interval_spreads(trace, past.predicted),
        ),
        lookahead=True,
    )


def _check_movable(trace: Trace, site: Site, jobs: Path) -> None:
    """Raises UsageError where no job's run time is known in two places: no policy moves any."""
    places = np.zeros(len(trace), np.int64)
    for candidate in site.candidates:
        column = trace.runtime_on.get(candidate.platform)
        places += 0 if column is None else np.isfinite(column)
    if places.max(initial=0) < 2:
        raise UsageError(
            f"{jobs}: of no job is known how long it takes in another place than where it ran, so "
            "no setting can move one",
            hint="give the times elsewhere with --times CSV (job,platform,runtime_s)",
        )


def interval_spreads(trace: Trace, predicted: Mapping[str, Floats]) -> Floats:
    """Return [jobs] the ratio of the upper end of a job's predicted interval to its middle.

    A 90 % interval as wide as the errors of the predictions for jobs of the same user ask for; with
    fewer than ``FEWEST_ERRORS`` errors, of all jobs. ``EXACT_SPREAD`` where nothing is predicted.
    """
    squares = np.full((len(trace), max(1, len(predicted))), np.nan)
    for column, (platform, times) in enumerate(sorted(predicted.items())):
        if platform in trace.runtime_on:
            with np.errstate(divide="ignore", invalid="ignore"):
                squares[:, column] = np.log(times / trace.runtime_on[platform]) ** 2
    is_known = np.isfinite(squares)
    count, total = is_known.sum(axis=1), np.where(is_known, squares, 0.0).sum(axis=1)
    if not total.any():
        return np.full(len(trace), EXACT_SPREAD)
    counts, totals = (np.bincount(trace.user, weights=column) for column in (count, total))
    is_enough = counts >= FEWEST_ERRORS
    variances = np.where(is_enough, totals / np.maximum(counts, 1), total.sum() / count.sum())
    spreads: Floats = np.exp(NORMAL_90 * np.sqrt(variances))
    return spreads[trace.user]


def _said_yes(options: Mapping[str, str], name: str) -> bool:
    word = options.get(name, "no")
    if word not in ("yes", "no"):
        raise UsageError(f"--option {name}={word} is not known", hint="known: yes, no")
    return word == "yes"


def _there(past: PastTrace, cluster: Cluster, jobs: Path, notes: list[str]) -> PastTrace:
    """Return the past jobs in partitions that the site file has; ``notes`` gets the others'
    number."""
    names = {part.name for part in cluster.partitions}
    trace = past.trace
    lacking = lacking_partitions(trace, {*names, ""})
    if not lacking:
        return past
    counts = with_jobs(trace, lacking)
    hint = f"the site file has {', '.join(sorted(cluster.queues))}: give candidates those names"
    rows = np.flatnonzero(~np.isin(trace.queue, list(lacking)))
    if not len(rows):
        raise UsageError(f"{jobs}: all jobs are of unknown partitions: {counts}", hint=hint)
    notes.append(
        f"{len(trace) - len(rows)} jobs of unknown partitions are left out: {counts}; {hint}"
    )
    predicted = {name: column[rows] for name, column in past.predicted.items()}
    return replace(past, trace=trace.rows(rows), predicted=predicted)


def _settled(trace: Trace, cluster: Cluster, site: Site) -> Trace:
    """Return the trace with a partition for every job, and each job's run time in the partition.

    Jobs that name no partition are assumed to have run in the site's reference partition, else in
    its first one.
    """
    first = site.reference_queue or cluster.partitions[0].name
    names = {part.name for part in cluster.partitions}
    queues = tuple(name if name in names else first for name in trace.queues)
    places = [cluster.partition(name) for name in queues]
    platforms = [cluster.platform_of(place) for place in places]
    times = {name: column.copy() for name, column in trace.runtime_on.items()}
    own = trace.runtime_s.copy()
    for queue, platform in enumerate(platforms):
        rows = np.flatnonzero(trace.queue == queue)
        there = times.setdefault(platform, np.full(len(trace), np.nan))
        # A job's time is known where it ran; a job table has times by platform only.
        there[rows] = np.where(np.isnan(there[rows]), own[rows], there[rows])
        own[rows] = there[rows]
    known = {name: column for name, column in times.items() if np.isfinite(column).any()}
    return replace(trace, queues=queues, runtime_s=own, runtime_on=known)
