"""What would have happened to past jobs: two replays side by side, in pictures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from berth.pilot.units import format_elapsed, format_seconds
from berth.plugin.pictures import tuning as pictures
from berth.plugin.replay.shown import figure_rows
from berth.plugin.report.parts import Part, Report, TextTable, drawn, text_table
from berth.policies.replay.metrics import Metrics
from berth.policies.tuning.replayer import Figures

_LEVELS = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_SAME = 0.0005
"""A change that is none in print."""
_FIRST = 20
"""Jobs in the table beside the Gantt chart."""
MOST_COMPARED = 4
"""Replays beside the first one."""


@dataclass(frozen=True)
class Shown:
    """One replay under its name."""

    name: str
    metrics: Metrics
    figures: Figures


def replay_report(trace: str, found: Sequence[Shown], counted: Sequence[str]) -> Report:
    """All replays as one table, then each beside the first."""
    first, *others = found
    header = ("Figure", *(one.name for one in found))
    rows = figure_rows([(one.name, one.metrics) for one in found])
    parts = [
        Part(
            "Figures",
            counted if others else [*counted, "Name a second --backfill or --policy to compare."],
            tables=[
                text_table("With 90 % intervals over weeks, where there are several", header, rows)
            ],
        )
    ]
    for other in others[:MOST_COMPARED]:
        labels = (first.name, other.name)
        for one in compared_parts(first.figures, other.figures, labels):
            title = f"{one.title}: {other.name} beside {first.name}"
            parts.append(Part(title, one.lines, one.pictures, one.tables))
    return Report(f"Replay of {trace}", "", parts)


def compared_parts(before: Figures, after: Figures, labels: tuple[str, str]) -> list[Part]:
    """Waits, use, when and where jobs ran, winners and losers: a picture and a table each."""
    kinds = (
        ("Waits", "Share of jobs that waited at most so long", pictures.waits, _waits),
        ("Use", "Cores in use in each partition over time", pictures.use, _use),
        ("When and where jobs ran",
         f"The first {pictures.MOST_BARS} jobs, a bar each, by partition",
         pictures.gantt, _first_jobs),
    )  # fmt: skip
    pair = (before, after, labels)
    users = pictures.changed_users(before, after)
    lose = sum(one.change > _SAME for one in users)
    gain = sum(one.change < -_SAME for one in users)
    return [
        *(
            Part(
                title,
                pictures=drawn(caption, partial(picture, *pair)),
                tables=[table(*pair)],
            )
            for title, caption, picture, table in kinds
        ),
        Part(
            "Winners and losers",
            [
                f"By their mean time from submission to end {lose} of {len(users)} users lose and "
                f"{gain} gain. Below stand those who change most."
            ],
            drawn("Change of users' mean times", lambda: pictures.users(before, after)),
            [
                text_table(
                    "Users",
                    ("User", "Jobs", labels[0], labels[1], "Change"),
                    [
                        (
                            one.user, str(one.jobs), format_elapsed(one.before_s),
                            format_elapsed(one.after_s), f"{one.change:+.1%}",
                        )
                        for one in pictures.most_changed(users)
                    ],
                )
            ],
        ),
    ]  # fmt: skip


def _waits(before: Figures, after: Figures, labels: tuple[str, str]) -> TextTable:
    def shown(figures: Figures, level: float) -> str:
        if not len(figures.wait_s):
            return "-"
        return format_elapsed(float(np.quantile(figures.wait_s, level)))

    return text_table(
        "Waits",
        ("Share of jobs", f"waited at most, {labels[0]}", labels[1]),
        [(f"{level:.0%}", shown(before, level), shown(after, level)) for level in _LEVELS],
    )


def _use(before: Figures, after: Figures, labels: tuple[str, str]) -> TextTable:
    def shown(figures: Figures, queue: int) -> str:
        rows = figures.queue == queue
        hours = float(figures.core_s[rows].sum()) / pictures.HOUR_S
        return f"{int(rows.sum()):,} jobs, {hours:,.0f} core-hours"

    queues = before.queues or ("all",)
    capacity = before.capacity or {}
    return text_table(
        "Jobs and core-hours by partition",
        ("Partition", "Cores", *labels),
        [
            (name, f"{capacity[name]:.0f}" if name in capacity else "-", shown(before, n),
             shown(after, n))
            for n, name in enumerate(queues)
        ],
    )  # fmt: skip


def _first_jobs(before: Figures, after: Figures, labels: tuple[str, str]) -> TextTable:
    def shown(figures: Figures, row: int) -> tuple[str, str]:
        if row >= len(figures.submit_s):
            return "-", "-"
        queues = figures.queues or ("all",)
        begin = figures.submit_s.min()
        start = figures.submit_s[row] + figures.wait_s[row] - begin
        return (
            f"{queues[int(figures.queue[row])]} at {format_elapsed(float(start))}",
            format_seconds(float(figures.runtime_s[row])),
        )

    count = min(_FIRST, max(len(before.submit_s), len(after.submit_s)))
    header = ("Job", labels[0], "ran for", labels[1], "ran for")
    rows = [(str(n + 1), *shown(before, n), *shown(after, n)) for n in range(count)]
    words = f"The first {count} jobs: where they started, and how long after the first submission"
    return text_table(words, header, rows)
