"""The jobs that run and wait, replayed forward: when each starts, and how the next hours go."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

from berth.pilot.units import format_elapsed
from berth.plugin.pictures.charts import Row, ranked_times
from berth.plugin.replay.live import HORIZONS_H, Figure, Known, figures
from berth.plugin.replay.present import PresentQueue
from berth.plugin.replay.queue_replay import Live, why_never
from berth.plugin.report.parts import Part, Picture, Report, drawn, text_table
from berth.plugin.report.terminal import columns
from berth.policies.replay.live import Foreseen

MOST_JOBS = 200
_SHOWN = 20
NAMED = 5
"""Jobs that never start, by name."""
UNKNOWN = "Jobs that are yet to be submitted are not known to this."


def queue_report(live: Live, only: str | None) -> Report:
    """``only``: the user whose jobs are shown one by one; None: everybody's."""
    present, found = live.present, live.replays
    names = [name for name, _ in found]
    lines = live_notes(present, live.known)
    if not present.waiting:
        return Report("The queue", "No job waits.", [Part("Now", lines)])
    own = [k for k, job in enumerate(present.waiting) if only is None or job.user == only]
    shown = [present.waiting[k] for k in own[:MOST_JOBS]]
    rows = [
        (job.job_id, job.user, job.queues[0], *(start_cell(one, k) for _, one in found))
        for k, job in zip(own, shown, strict=False)
    ]
    left = len(own) - len(shown)
    return Report(
        "The queue",
        lines[0] + ".",
        [
            Part(
                "The next hours",
                [*lines[1:], UNKNOWN],
                tables=[
                    text_table(
                        "Of the jobs that wait now, with 90 % intervals",
                        ("Figure", *names),
                        live_figures(present, found),
                    ),
                ],
            ),
            Part(
                "When jobs start",
                [
                    *([f"{left} more jobs wait."] if left else ()),
                    *never_starting(present, found, own),
                ],
                _starts(live, own),
                [
                    text_table(
                        "Waiting jobs",
                        ("Job", "User", "Queue", *(f"Start, {name}" for name in names)),
                        rows,
                    )
                ],
            ),
        ],
    )


def _starts(live: Live, own: list[int]) -> tuple[Picture, ...]:
    """By the first way."""
    first, now_s = live.replays[0][1], live.present.queue.now_s
    shown = []
    for row in own:
        moments = [float(column[row]) for column in (first.low_s, first.mid_s, first.high_s)]
        if not all(map(np.isfinite, moments)):
            continue
        low, mid, high = (max(1.0, moment - now_s) for moment in moments)
        shown.append(Row(f"job {live.present.waiting[row].job_id}", (low, mid, high)))
    if not shown:
        return ()
    longest = format_elapsed(max(row.seconds[2] for row in shown))
    return drawn(
        f"When each job is expected to start, with 90 % intervals; the last within {longest}",
        lambda: ranked_times(shown, label="wait from now (at least 1 s) with its 90 % interval"),
    )


def queue_text(live: Live) -> str:
    """Return the next hours of the queue for a terminal."""
    present, replays, waiting = live.present, live.replays, live.present.waiting
    lines = live_notes(present, live.known)
    if not waiting:
        return "\n".join(lines)
    lines.append(columns(["", *(name for name, _ in replays)], live_figures(present, replays)))
    starts = [
        [job.job_id, job.user, job.queues[0], *(start_cell(one, k) for _, one in replays)]
        for k, job in enumerate(waiting[:_SHOWN])
    ]
    lines.append(columns(["job", "user", "queue", *(f"start, {n}" for n, _ in replays)], starts))
    if len(waiting) > _SHOWN:
        lines.append(f"and {len(waiting) - _SHOWN} more: --json has all")
    lines += never_starting(present, replays, range(len(waiting)))
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


def queue_data(live: Live) -> dict[str, object]:
    """Return the next hours of the queue, for JSON."""
    present, known = live.present, live.known

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
            for name, one in live.replays
        ],
    }
