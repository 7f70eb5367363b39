"""The jobs that run and wait, replayed forward: when each starts, and how the next hours go."""

from __future__ import annotations

import numpy as np

from berth.pilot.units import format_elapsed
from berth.plugin.cli.replay.live import (
    UNKNOWN,
    Live,
    live_figures,
    live_notes,
    never_starting,
    start_cell,
)
from berth.plugin.pictures.charts import Row, ranked_times
from berth.plugin.report.parts import Part, Picture, Report, Table, drawn

MOST_JOBS = 200


def queue_report(live: Live, only: str | None) -> Report:
    """``only``: the user whose jobs are shown one by one; None: everybody's."""
    present, found = live.present, live.found
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
                    Table("Of the jobs that wait now, with 90 % intervals",
                          ("Figure", *names), live_figures(present, found)),
                ],
            ),
            Part(
                "When jobs start",
                [
                    *([f"{left} more jobs wait."] if left else ()),
                    *never_starting(present, found, own),
                ],
                _starts(live, own),
                [Table("Waiting jobs", ("Job", "User", "Queue", *(f"Start, {n}" for n in names)),
                       rows)],
            ),
        ],
    )  # fmt: skip


def _starts(live: Live, own: list[int]) -> tuple[Picture, ...]:
    """By the first way."""
    first, now_s = live.found[0][1], live.present.queue.now_s
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
