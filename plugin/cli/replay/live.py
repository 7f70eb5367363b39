"""``berth replay --live``: how the next hours of the queue go, and when one job starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from berth.pilot.errors import BerthError, UsageError
from berth.pilot.units import format_elapsed
from berth.plugin.cli.options.where import find_site, open_view
from berth.plugin.cli.output.columns import columns
from berth.plugin.replay.live import HORIZONS_H, Figure, Known, expected_times, figures, next_hours
from berth.plugin.replay.present import PresentQueue, present_queue
from berth.plugin.scheduler import SCHEDULERS, Scheduler
from berth.plugin.scheduler.registry import open_scheduler
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.users.client import RemoteStore
from berth.policies.objectives import OBJECTIVES
from berth.policies.replay import Settings
from berth.policies.replay.inputs import LARGER, REASONS
from berth.policies.replay.live import Foreseen
from berth.policies.replay.settings import Backfill

_SHOWN = 20
NAMED = 5
"""Jobs that never start, by name."""
UNKNOWN = "Jobs that are yet to be submitted are not known to this."
MOST_FOR_WHY = 300
"""Jobs of a queue that ``berth why`` replays; of longer ones ``berth replay --live`` does."""


@dataclass(frozen=True, slots=True)
class Start:
    """When a waiting job starts, in Unix seconds, with its 90 % interval."""

    low_s: float
    mid_s: float
    high_s: float


@dataclass(frozen=True)
class Live:
    """The present queue replayed forward, under one way or several."""

    present: PresentQueue
    known: Known
    found: Sequence[tuple[str, Foreseen]]
    """By name of the way."""


def show_live(
    site_file: Path | None,
    store_url: str | None,
    backfills: Sequence[str],
    policies: Sequence[str],
    *,
    json_: bool,
) -> None:
    """Print the next hours under the present way and under each policy. Raises BerthError."""
    live = live_replays(site_file, store_url, backfills, policies)
    if json_:
        click.echo(json.dumps(_as_json(live.present, live.known, live.found), indent=2))
    else:
        click.echo(_text(live.present, live.known, live.found))


def live_replays(
    site_file: Path | None,
    store_url: str | None,
    backfills: Sequence[str] = (),
    policies: Sequence[str] = (),
) -> Live:
    """Takes some seconds where many jobs run and wait. Raises BerthError."""
    site = find_site(site_file)
    scheduler = _scheduler(site)
    present = _present(scheduler, site)
    candidates = () if site is None else site.candidates
    store = None if site is None and store_url is None else _store(site_file, store_url)
    known = expected_times(present, store, candidates)
    found: list[tuple[str, Foreseen]] = []
    for name in backfills or [scheduler.replayed_as]:
        settings = Settings(Backfill(name))
        found.append((name, next_hours(present, settings, known)))
        for policy in policies:
            if site is None:
                raise UsageError(
                    "--policy places jobs on the site's candidates", hint="give --site"
                )
            OBJECTIVES.load(policy)
            asked = replace(site.policy, objective=policy)
            there = next_hours(present, settings, known, policy=asked, candidates=candidates)
            found.append((f"{name}, {policy}", there))
    return Live(present, known, found)


def start_of(
    job_id: str, site_file: Path | None, store: Store | RemoteStore
) -> tuple[Start | None, str | None]:
    """The start of one waiting job; None: why there is no estimate, where that is worth saying."""
    try:
        site = find_site(site_file)
        if site is None:
            return None, None
        scheduler = _scheduler(site)
        present = _present(scheduler, site)
        # Of an array the task that starts first counts.
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
        found = next_hours(present, Settings(Backfill(scheduler.replayed_as)), known)
    except BerthError as error:
        return None, error.message
    row = min(rows, key=lambda k: float(found.mid_s[k]))
    low, mid, high = (float(c[row]) for c in (found.low_s, found.mid_s, found.high_s))
    if np.isfinite(mid):
        return Start(low, mid, high), None
    return None, f"in a replay it never starts, {why_never(present, found, row)}"


def _scheduler(site: Site | None) -> Scheduler:
    if site is not None:
        return open_scheduler(site)
    for kind in SCHEDULERS.load_all().values():
        scheduler = kind()
        if scheduler.is_here():
            return scheduler
    raise UsageError("no scheduler is on this machine", hint="run this where its commands are")


def _present(scheduler: Scheduler, site: Site | None) -> PresentQueue:
    return present_queue(
        scheduler.read(),
        scheduler.present_jobs(),
        () if site is None else site.candidates,
        scheduler.reservations(),
    )


def _store(site_file: Path | None, store_url: str | None) -> Store | RemoteStore | None:
    """None: it cannot be read; the replay goes on without predictions."""
    try:
        return open_view(site_file, store_url)
    except BerthError:
        return None


def _text(present: PresentQueue, known: Known, found: Sequence[tuple[str, Foreseen]]) -> str:
    waiting = present.waiting
    lines = live_notes(present, known)
    if not waiting:
        return "\n".join(lines)
    lines.append(columns(["", *(name for name, _ in found)], live_figures(present, found)))
    shown = [
        [job.job_id, job.user, job.queues[0], *(start_cell(one, k) for _, one in found)]
        for k, job in enumerate(waiting[:_SHOWN])
    ]
    lines.append(columns(["job", "user", "queue", *(f"start, {n}" for n, _ in found)], shown))
    if len(waiting) > _SHOWN:
        lines.append(f"and {len(waiting) - _SHOWN} more: --json has all")
    lines += never_starting(present, found, range(len(waiting)))
    lines.append(UNKNOWN)
    return "\n".join(lines)


def live_notes(present: PresentQueue, known: Known) -> list[str]:
    """What was replayed, in sentences."""
    waiting = present.waiting
    if not present.running and not waiting:
        left = [f"{count} left out: they {why}" for why, count in present.left_out.items()]
        return ["No job runs or waits that could be replayed", *left]
    before = "expected to take as long as their users' jobs before"
    how = f"Berth predicted the time of {known.predicted}, the others are {before}"
    if not known.predicted:
        how = f"Berth predicted the time of none: they are {before}"
    lines = [f"{present.running} jobs run and {len(waiting)} wait; {how}"]
    lines += [f"{count} left out: they {why}" for why, count in present.left_out.items()]
    return lines


def live_figures(present: PresentQueue, found: Sequence[tuple[str, Foreseen]]) -> list[list[str]]:
    """A line for each figure of the jobs that wait, a column for each way."""
    made = [(name, figures(one, present)) for name, one in found]
    titles = {
        "mean_start_s": "mean wait from now", "last_start_s": "last of them starts in",
        **{f"started_in_{h}_h": f"started within {h} h" for h in HORIZONS_H}, "moved": "moved",
    }  # fmt: skip
    return [
        [title, *(_cell(one[key], elapsed=key.endswith("_s")) for _, one in made)]
        for key, title in titles.items()
    ]


def _cell(figure: Figure, *, elapsed: bool) -> str:
    shown = [
        format_elapsed(value) if elapsed else f"{value:.0f}"
        for value in (figure.mid, figure.low, figure.high)
    ]
    return f"{shown[0]} ({shown[1]}..{shown[2]})"


def never_starting(
    present: PresentQueue, found: Sequence[tuple[str, Foreseen]], rows: Iterable[int]
) -> list[str]:
    """Which of these waiting jobs never start, by way and reason, in lines."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, one in found:
            if not np.isfinite(one.mid_s[row]):
                why = why_never(present, one, row)
                reasons.setdefault((name, why), []).append(present.waiting[row].job_id)
    return [
        f"{name}: {len(jobs)} never start, {why}: {', '.join(jobs[:NAMED])}"
        + f" and {len(jobs) - NAMED} more" * (len(jobs) > NAMED)
        for (name, why), jobs in reasons.items()
    ]


def why_never(present: PresentQueue, found: Foreseen, row: int) -> str:
    """Why a waiting job has no start."""
    why = REASONS[found.middle.refused[present.queue.running + row]]
    if why == LARGER:
        return "as their queue has not enough working nodes with room for an even share each"
    return f"as they have {why}" if why else "as they wait for jobs that never end"


def start_cell(found: Foreseen, row: int) -> str:
    """When a waiting job starts, with its interval."""
    if not np.isfinite(found.mid_s[row]):
        return "-"
    low, mid, high = (
        time.strftime("%m-%d %H:%M", time.localtime(float(column[row])))
        if np.isfinite(column[row]) else "?"
        for column in (found.low_s, found.mid_s, found.high_s)
    )  # fmt: skip
    return f"{mid} ({low}..{high})"


def _as_json(
    present: PresentQueue, known: Known, found: Sequence[tuple[str, Foreseen]]
) -> dict[str, object]:
    def whole(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    return {
        "as_of_s": present.queue.now_s,
        "running": present.running,
        "waiting": len(present.waiting),
        "predicted": known.predicted,
        "left_out": dict(present.left_out),
        "replays": [
            {
                "name": name,
                "draws": len(one.replays),
                "figures": {
                    key: [value.low, value.mid, value.high]
                    for key, value in figures(one, present).items()
                },
                "starts_s": {
                    job.job_id: [whole(c[k]) for c in (one.low_s, one.mid_s, one.high_s)]
                    for k, job in enumerate(present.waiting)
                },
            }
            for name, one in found
        ],
    }
