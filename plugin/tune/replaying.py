"""The replay that a tune asks: past jobs of a file on the site's cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.replay.clusters import cluster_of
from berth.plugin.site.site import Site
from berth.plugin.tune.job_table import read_job_table
from berth.policies.replay import Backfill, Cluster, Settings, Trace
from berth.policies.tuning.replayed import TraceReplayer

OPTIONS = ("backfill",)


def open_replayer(site: Site, jobs: Path, options: Mapping[str, str]) -> TraceReplayer:
    """Raises UsageError, DocumentError."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"--option: {unknown[0]!r} is not known", hint=f"known: {', '.join(OPTIONS)}"
        )
    try:
        backfill = Backfill(options.get("backfill", Backfill.EASY.value))
    except ValueError:
        known = ", ".join(one.value for one in Backfill)
        raise UsageError(
            f"--option backfill={options['backfill']} is not known", hint=f"known: {known}"
        ) from None
    table = read_job_table(jobs)
    used = {candidate.platform for candidate in site.candidates}
    if not used & set(table.trace.runtime_on):
        raise UsageError(
            f"{jobs} has no times on a platform of {site.source}",
            hint=f"the site has: {', '.join(sorted(used))}",
        )
    if any(not np.isfinite(column).any() for column in table.trace.runtime_on.values()):
        raise UsageError(f"{jobs} has a platform without any time")
    place = cluster_of(site)
    return TraceReplayer(
        trace=_settled(table.trace, place.cluster, site, jobs),
        cluster=place.cluster,
        partition_of=place.partition_of,
        settings=Settings(backfill=backfill),
        candidates=site.candidates,
        predicted=table.predicted,
    )


def _settled(trace: Trace, cluster: Cluster, site: Site, jobs: Path) -> Trace:
    """With a partition for every job, and the time that it took there.

    Jobs that name none are taken to have run in the site's reference partition, else its first.
    """
    first = site.reference_queue or cluster.partitions[0].name
    queues = tuple(name or first for name in trace.queues)
    try:
        places = [cluster.partition(name) for name in queues]
    except UsageError as error:
        raise UsageError(f"{jobs}: {error.message}", hint=error.hint) from None
    unknown = np.full(len(trace), np.nan)
    by_queue = [trace.runtime_on.get(cluster.platform_of(place), unknown) for place in places]
    rows = np.arange(len(trace))
    return replace(trace, queues=queues, runtime_s=np.stack(by_queue)[trace.queue, rows])
