"""Reports a live replay of the queue: when each waiting job starts, and statistics of them."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from berth.pilot.units import format_elapsed
from berth.plugin.pictures.charts import TimeBar, ranked_times
from berth.plugin.replay.live import HORIZONS_H, Known, figures
from berth.plugin.replay.present import PresentQueue
from berth.plugin.replay.queue_replay import Live, why_never
from berth.plugin.report.parts import THREE, Column, Part, Picture, Report, Table, drawn
from berth.policies.replay.live import Foreseen
from berth.policies.waits import WaitTable
from berth.predictor.core.prediction import Interval

MOST_JOBS = 200
"""Maximum number of jobs whose start is shown."""
NAMED = 5
"""Maximum number of never-starting jobs that are named."""
FIGURES = {
    "mean_start_s": "mean wait from now", "last_start_s": "last of them starts in",
    **{f"started_in_{hours}_h": f"started within {hours} h" for hours in HORIZONS_H},
    "moved": "moved",
}  # fmt: skip
"""Titles of the waiting jobs' statistics, by key."""
UNKNOWN = "Jobs that are yet to be submitted are not known to this."


def queue_report(
    live: Live, only: str | None, *, most_jobs: int = MOST_JOBS, pictures: bool = True
) -> Report:
    """Return the report of a live replay of the queue: expected starts and waits.

    ``only``: the user whose jobs are listed, None: all users; ``most_jobs``: maximum number of jobs
    listed.
    """
    present, replays = live.present, live.replays
    lines = live_notes(present, live.known)
    if not present.waiting:
        return Report("The queue", "No job waits.", [Part("Now", lines)])
    own = [k for k, job in enumerate(present.waiting) if only is None or job.user == only]
    left = max(0, len(own) - most_jobs)
    return Report(
        "The queue",
        lines[0] + ".",
        [
            Part("The next hours", [*lines[1:], UNKNOWN], tables=[_figures_table(live)]),
            Part(
                "When jobs start",
                [
                    *([f"{left} more jobs wait."] if left else ()),
                    *never_starting(present, replays, own),
                ],
                _starts(live, own[:most_jobs]) if pictures else (),
                [_starts_table(live, own[:most_jobs])],
            ),
        ],
    )


def _figures_table(live: Live) -> Table[str]:
    def column(name: str, foreseen: Foreseen) -> Column[str]:
        known = figures(foreseen, live.present)
        return Column(
            name, name, known.__getitem__, words=lambda key: _figure_text(key, known[key]),
            ends=THREE,
        )  # fmt: skip

    columns: list[Column[str]] = [Column("Figure", "figure", str, words=FIGURES.get)]
    columns += [column(name, foreseen) for name, foreseen in live.replays]
    return Table("Of the jobs that wait now, with 90 % intervals", columns, list(FIGURES))


def _starts_table(live: Live, waiting: Sequence[int]) -> Table[int]:
    jobs = live.present.waiting

    def column(name: str, foreseen: Foreseen) -> Column[int]:
        return Column(
            f"Start, {name}", f"start_s, {name}", lambda k: _start_s(foreseen, k),
            words=lambda k: start_text(foreseen, k), unit="s", ends=THREE,
        )  # fmt: skip

    columns: list[Column[int]] = [
        Column("Job", "job", lambda k: jobs[k].job_id),
        Column("User", "user", lambda k: jobs[k].user),
        Column("Queue", "queue", lambda k: jobs[k].queues[0]),
    ]
    columns += [column(name, foreseen) for name, foreseen in live.replays]
    return Table("Waiting jobs", columns, waiting)


def _start_s(foreseen: Foreseen, k: int) -> list[float | None]:
    """Return low, middle and high of the start of waiting job ``k``; None: it never starts."""
    ends = (foreseen.low_s[k], foreseen.mid_s[k], foreseen.high_s[k])
    return [float(end) if np.isfinite(end) else None for end in ends]


def _starts(live: Live, own: list[int]) -> tuple[Picture, ...]:
    first, now_s = live.replays[0][1], live.present.queue.now_s
    shown = []
    for row in own:
        moments = [float(column[row]) for column in (first.low_s, first.mid_s, first.high_s)]
        if not all(map(np.isfinite, moments)):
            continue
        low, mid, high = (max(1.0, moment - now_s) for moment in moments)
        shown.append(TimeBar(f"job {live.present.waiting[row].job_id}", (low, mid, high)))
    if not shown:
        return ()
    longest = format_elapsed(max(row.seconds[2] for row in shown))
    return drawn(
        f"When each job is expected to start, with 90 % intervals; the last within {longest}",
        lambda: ranked_times(shown, label="wait from now (at least 1 s) with its 90 % interval"),
    )


def live_notes(present: PresentQueue, known: Known) -> list[str]:
    """Return sentences on what was replayed and where the run times come from."""
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


def _figure_text(key: str, figure: Interval) -> str:
    write = format_elapsed if key.endswith("_s") else "{:.0f}".format
    return f"{write(figure.mid)} ({write(figure.low)}..{write(figure.high)})"


def never_starting(
    present: PresentQueue, replays: Sequence[tuple[str, Foreseen]], rows: Iterable[int]
) -> list[str]:
    """Return sentences on which of these waiting jobs never start, by replay method and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, foreseen in replays:
            if not np.isfinite(foreseen.mid_s[row]):
                why = why_never(present, foreseen, row)
                reasons.setdefault((name, why), []).append(present.waiting[row].job_id)
    return [
        f"{name}: {len(jobs)} never start, {why}: {', '.join(jobs[:NAMED])}"
        + f" and {len(jobs) - NAMED} more" * (len(jobs) > NAMED)
        for (name, why), jobs in reasons.items()
    ]


def start_text(foreseen: Foreseen, k: int) -> str | None:
    """Return the start of waiting job ``k`` with its interval as text; None: it never starts."""
    if not np.isfinite(foreseen.mid_s[k]):
        return None
    low, mid, high = (
        "?" if end is None else time.strftime("%m-%d %H:%M", time.localtime(end))
        for end in _start_s(foreseen, k)
    )
    return f"{mid} ({low}..{high}) {time.strftime('%Z')}"


def queue_data(live: Live) -> dict[str, object]:
    """Return the queue's replay, for JSON."""
    present, known = live.present, live.known

    return {
        "as_of_s": present.queue.now_s,
        "running": present.running,
        "waiting": len(present.waiting),
        "predicted": known.predicted,
        "left_out": dict(present.left_out),
        "replays": [
            {
                "name": name,
                "draws": len(foreseen.replays),
                "figures": {
                    key: [value.low, value.mid, value.high]
                    for key, value in figures(foreseen, present).items()
                },
                "starts_s": {
                    job.job_id: _start_s(foreseen, k) for k, job in enumerate(present.waiting)
                },
            }
            for name, foreseen in live.replays
        ],
    }


def waits_report(
    tables: Mapping[str, WaitTable], gpus: Container[str], *, running: int, waiting: int
) -> Report:
    """Return the report of a new job's expected waits; ``gpus``: the candidates with GPUs."""
    shown = [
        _waits_table(name, table, "GPUs" if name in gpus else "cores")
        for name, table in tables.items()
    ]
    return Report("", f"{running} jobs run, {waiting} wait", [Part("", tables=shown)])


def _waits_table(name: str, table: WaitTable, units: str) -> Table[int]:
    def column(place: int, bound_s: float) -> Column[int]:
        title = "any" if math.isinf(bound_s) else f"up to {format_elapsed(bound_s)}"
        key = "wait_any_s" if math.isinf(bound_s) else f"wait_{bound_s:.0f}_s"
        return Column(
            title, key, lambda row: table.waits[row][place],
            lambda wait: format_elapsed(wait.mid) if wait.mid else "none", "s", ends=THREE,
        )  # fmt: skip

    columns: list[Column[int]] = [
        Column("Place", "place", lambda _: name),
        Column(units, "units", table.units.__getitem__, kind=float),
    ]
    columns += [column(place, bound_s) for place, bound_s in enumerate(table.seconds)]
    return Table(name, columns, range(len(table.units)))
