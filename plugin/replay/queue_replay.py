"""Replay the site's current queue forward, and find when a waiting job starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.errors import BerthError, UsageError
from berth.plugin.replay.live import Known, StoreView, expected_times, next_hours
from berth.plugin.replay.present import PresentQueue, present_queue
from berth.plugin.scheduler import Scheduler
from berth.plugin.scheduler.registry import site_scheduler
from berth.plugin.site.site import Site
from berth.plugin.site_file import find_site
from berth.policies.objectives import OBJECTIVES
from berth.policies.replay import Settings
from berth.policies.replay.inputs import LARGER, REASONS
from berth.policies.replay.live import Foreseen
from berth.policies.replay.settings import Backfill

MOST_FOR_WHY = 300
"""Largest queue that ``berth why`` replays, in jobs; ``berth replay --live`` has no limit."""


@dataclass(frozen=True, slots=True)
class Start:
    """The predicted start of a waiting job in Unix seconds, with the 90 % interval."""

    low_s: float
    mid_s: float
    high_s: float


@dataclass(frozen=True)
class Live:
    """The current queue, simulated for the next hours by one or several methods."""

    present: PresentQueue
    known: Known
    replays: Sequence[tuple[str, Foreseen]]
    """Name of the method (backfill, and policy if any), and its replay."""


def live_replays(
    site: Site | None,
    store: StoreView | None,
    backfills: Sequence[str] = (),
    policies: Sequence[str] = (),
) -> Live:
    """Simulate the current queue's next hours; this takes some seconds for many jobs.

    ``store``: decisions and past jobs; None: there are no predictions. Raises BerthError.
    """
    scheduler = site_scheduler(site)
    present = _present(scheduler, site)
    candidates = () if site is None else site.candidates
    known = expected_times(present, store, candidates)
    replays: list[tuple[str, Foreseen]] = []
    for name in backfills or [scheduler.replayed_as]:
        settings = Settings(Backfill(name))
        replays.append((name, next_hours(present, settings, known)))
        for policy in policies:
            if site is None:
                raise UsageError(
                    "--policy places jobs on the site's candidates", hint="give --site"
                )
            OBJECTIVES.load(policy)
            asked = site.policy.model_copy(update={"objective": policy})
            there = next_hours(present, settings, known, policy=asked, candidates=candidates)
            replays.append((f"{name}, {policy}", there))
    return Live(present, known, replays)


def start_of(
    job_id: str, site_file: Path | None, store: StoreView
) -> tuple[Start | None, str | None]:
    """Return the predicted start of a waiting job, or None and the reason for having no estimate.

    The reason is None where there is no site file or no such waiting job.
    """
    try:
        site = find_site(site_file)
        if site is None:
            return None, None
        scheduler = site_scheduler(site)
        present = _present(scheduler, site)
        # For an array, the task that starts first counts.
        rows = [
            k
            for k, job in enumerate(present.waiting)
            if job.job_id == job_id or job.job_id.startswith(f"{job_id}_")
        ]
        if not rows:
            return None, None
        if len(present.jobs) > MOST_FOR_WHY:
            return None, f"{len(present.jobs)} jobs run and wait: berth replay --live says more"
        known = expected_times(present, store, site.candidates)
        foreseen = next_hours(present, Settings(Backfill(scheduler.replayed_as)), known)
    except BerthError as error:
        return None, error.message
    row = min(rows, key=lambda k: float(foreseen.mid_s[k]))
    low, mid, high = (float(c[row]) for c in (foreseen.low_s, foreseen.mid_s, foreseen.high_s))
    if np.isfinite(mid):
        return Start(low, mid, high), None
    return None, f"in a replay it never starts, {why_never(present, foreseen, row)}"


def _present(scheduler: Scheduler, site: Site | None) -> PresentQueue:
    return present_queue(
        scheduler.read(),
        scheduler.present_jobs(),
        () if site is None else site.candidates,
        scheduler.reservations(),
    )


def why_never(present: PresentQueue, foreseen: Foreseen, row: int) -> str:
    """Return the reason why a waiting job never starts in a replay, as the end of a sentence."""
    why = REASONS[foreseen.middle.refused[present.queue.running + row]]
    if why == LARGER:
        return "as their queue has not enough working nodes with room for an even share each"
    return f"as they have {why}" if why else "as they wait for jobs that never end"
