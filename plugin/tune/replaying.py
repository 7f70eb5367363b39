"""The replay that a tune asks: past jobs of a file on the site's cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import UsageError
from berth.plugin.replay.clusters import cluster_of
from berth.plugin.replay.past import FORMATS, past_jobs
from berth.plugin.site.site import Site
from berth.policies.replay import Backfill, Cluster, Settings, Trace
from berth.policies.replay.compiled import has_numba
from berth.policies.replay.engine import WORTH_COMPILING
from berth.policies.replay.sliced import Recutting
from berth.policies.tuning.replayed import TraceReplayer

OPTIONS = ("backfill", "format", "recut", "times", "utc")


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
    if options.get("format") not in (None, *FORMATS):
        raise UsageError(
            f"--option format={options['format']} is not known", hint=f"known: {', '.join(FORMATS)}"
        )
    times = options.get("times")
    past = past_jobs(
        jobs, options.get("format"), None if times is None else Path(times),
        utc=options.get("utc", "no") == "yes",
    )  # fmt: skip
    place = cluster_of(site)
    trace = _settled(past.trace, place.cluster, site, jobs)
    used = {candidate.platform for candidate in site.candidates}
    if not used & set(trace.runtime_on):
        raise UsageError(
            f"{jobs} has no times on a platform of {site.source}",
            hint=f"the site has: {', '.join(sorted(used))}",
        )
    if any(not np.isfinite(column).any() for column in past.trace.runtime_on.values()):
        raise UsageError(f"{jobs} has a platform without any time")
    return TraceReplayer(
        trace=trace,
        cluster=place.cluster,
        partition_of=place.partition_of,
        # The first parts of long traces, too: compiling is paid for once.
        settings=Settings(
            backfill,
            compiled=_compiles(len(trace)),
            recutting=Recutting() if options.get("recut", "no") == "yes" else None,
        ),
        candidates=site.candidates,
        predicted={**trace.runtime_on, **past.predicted},
        lookahead=True,
    )


def _compiles(jobs: int) -> bool | None:
    """Whether all parts of a trace are replayed by the compiled kernel; None: as long as they are
    long enough themselves."""
    return True if has_numba() and jobs >= WORTH_COMPILING else None


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
    platforms = [cluster.platform_of(place) for place in places]
    times = {name: column.copy() for name, column in trace.runtime_on.items()}
    own = trace.runtime_s.copy()
    for queue, platform in enumerate(platforms):
        rows = np.flatnonzero(trace.queue == queue)
        there = times.setdefault(platform, np.full(len(trace), np.nan))
        # Where it ran is where its time is known; a table says times by platform only.
        there[rows] = np.where(np.isnan(there[rows]), own[rows], there[rows])
        own[rows] = there[rows]
    known = {name: column for name, column in times.items() if np.isfinite(column).any()}
    return replace(trace, queues=queues, runtime_s=own, runtime_on=known)
