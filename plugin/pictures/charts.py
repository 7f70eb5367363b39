"""Charts of reports: predicted times, real over predicted times, MIG slices of a GPU fleet.

Times have a logarithmic axis, and 90 % intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from berth.plugin.pictures.figure import (
    INK,
    axes_of,
    drawing,
    element,
    time_ticks,
)

MOST = 20
PREDICTED = "predicted time with its 90 % interval"
_MOST_BELOW = 1e3
"""Maximum factor by which an interval's drawn lower end is below its middle, as a logarithmic axis
has no zero."""
MOST_POINTS = 2_000
MOST_ROWS = 16
_LEAST_S = 1e-3
MOST_GPUS = 32
"""Maximum number of GPUs drawn; the tables list all."""


_TRUSTED, _DOUBTED, _GRID, _REAL = "#2f6690", "#9aa3ad", "#d9dee3", "#b5493b"
_IN, _OUT, _LINE = _TRUSTED, _REAL, _DOUBTED


@dataclass(frozen=True, slots=True)
class TimeBar:
    """The predicted time of one place in seconds: low, middle and high."""

    name: str
    seconds: tuple[float, float, float]
    doubtful: bool = False
    """Whether the prediction is too uncertain to act on: a prior, or an abstention."""


def ranked_times(
    rows: Sequence[TimeBar], *, took_s: float | None = None, label: str = PREDICTED
) -> str:
    """Return an SVG chart of the first ``MOST`` rows' predicted times, with a line at the measured
    time ``took_s`` if given.

    Raises ToolMissing without matplotlib.
    """
    with drawing(_GRID):
        return element(_figure(rows, took_s, label))


def _figure(rows: Sequence[TimeBar], took_s: float | None, label: str) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra

    shown = list(rows)[:MOST]
    figure = Figure(figsize=(7.2, 0.7 + 0.28 * max(2, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    for height, row in enumerate(shown):
        low, mid, high = row.seconds
        colour = _DOUBTED if row.doubtful else _TRUSTED
        ends = (max(low, mid / _MOST_BELOW), high)
        axes.plot(ends, (height, height), color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot((mid,), (height,), "o", color=colour, markersize=5)
    if took_s is not None:
        axes.axvline(took_s, color=_REAL, linewidth=1.5, linestyle="--")
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [row.name for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    time_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel(label if took_s is None else f"{label}; dashed: how long it really took")
    axes.grid(axis="x", color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


@dataclass(frozen=True, slots=True)
class Compared:
    """A finished job's predicted and real times in seconds."""

    predicted_s: float
    real_s: float
    inside: bool
    """Whether the real time is inside the 90 % interval."""


@dataclass(frozen=True, slots=True)
class ShareBar:
    """One group's share or ratio with its interval; 1 is drawn as 100 %."""

    name: str
    low: float
    mid: float
    high: float


def real_times(jobs: Sequence[Compared]) -> str:
    """Return an SVG of each job's real over its predicted time, on logarithmic axes."""
    shown = list(jobs)[-MOST_POINTS:]
    with drawing(_GRID):
        figure, axes = axes_of(_GRID, 5.2, 4.4)
        for inside, colour, label in (
            (True, _IN, "inside its 90 % interval"), (False, _OUT, "outside"),
        ):  # fmt: skip
            some = [job for job in shown if job.inside is inside]
            axes.scatter(
                [max(job.predicted_s, _LEAST_S) for job in some],
                [max(job.real_s, _LEAST_S) for job in some],
                s=14, color=colour, alpha=0.7, label=f"{label}: {len(some)}", zorder=3,
            )  # fmt: skip
        every = [max(v, _LEAST_S) for job in shown for v in (job.predicted_s, job.real_s)]
        ends = (min(every) / 1.5, max(every) * 1.5)
        axes.plot(ends, ends, color=_LINE, linewidth=1, zorder=2)
        for set_scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
            set_scale("log")
            time_ticks(axis, *ends)
        axes.set(xlim=ends, ylim=ends, xlabel="predicted time", ylabel="real time")
        axes.legend(frameon=False, fontsize=8)
        return element(figure)


def shares(rows: Sequence[ShareBar], *, promised: float, label: str) -> str:
    """Return an SVG of shares with their intervals, and a line at the nominal share
    ``promised``."""
    shown = list(rows)[:MOST_ROWS]
    with drawing(_GRID):
        figure, axes = axes_of(_GRID, 6.4, 0.9 + 0.3 * max(2, len(shown)))
        for height, share in enumerate(shown):
            colour = _OUT if share.high < promised else _IN
            axes.plot(
                (100 * share.low, 100 * share.high), (height, height), color=colour, linewidth=3
            )
            axes.plot((100 * share.mid,), (height,), "o", color=colour, markersize=5)
        axes.axvline(100 * promised, color=INK, linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(shown)), [share.name for share in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 102 * max(1.0, *(share.high for share in shown)))
        axes.set_xlabel(label)
        return element(figure)


def counts_by_day(days: Sequence[tuple[str, int, int]]) -> str:
    """Return an SVG of counts by day: the day's name, all, and those among them in colour."""
    with drawing(_GRID):
        figure, axes = axes_of(_GRID, 6.4, 2.4)
        names = [name for name, _, _ in days]
        axes.bar(names, [count for _, count, _ in days], color=_GRID, label="all jobs")
        axes.bar(names, [among for _, _, among in days], color=_TRUSTED, label="changed")
        axes.legend(frameon=False, fontsize=8)
        return element(figure)


_ROOM, _EDGE = "#eef1f4", "#ffffff"


class SliceUse(Enum):
    """The state of a slice in the chart, with its colour."""

    FREE = "#cfe2f3"
    BUSY = "#f3c98b"
    NEW = "#bfe3d0"
    GONE = "#f0b8ae"


@dataclass(frozen=True, slots=True)
class SliceBlock:
    """One slice: its first memory slice (from 0), and its number of memory slices."""

    name: str
    begin: int
    width: int
    use: SliceUse


@dataclass(frozen=True, slots=True)
class Lane:
    """One GPU at one moment; without blocks: MIG is off, or the GPU has no instances."""

    name: str
    width: int
    """Total number of memory slices."""
    blocks: Sequence[SliceBlock]


def fleet(lanes: Sequence[Lane]) -> str:
    """Return an SVG of GPUs' MIG slices, one lane per GPU. Raises ToolMissing without
    matplotlib."""
    shown = list(lanes)[:MOST_GPUS]
    with drawing(_ROOM):
        from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra
        from matplotlib.patches import Patch  # noqa: PLC0415

        figure = Figure(figsize=(7.2, 0.9 + 0.36 * max(len(shown), 1)), layout="constrained")
        axes = figure.add_subplot()
        for row, lane in enumerate(shown):
            axes.barh(row, 1.0, height=0.8, color=_ROOM)
            for block in lane.blocks:
                axes.barh(
                    row, block.width / lane.width, left=block.begin / lane.width, height=0.8,
                    color=block.use.value, edgecolor=_EDGE, linewidth=1.5,
                )  # fmt: skip
                middle = (block.begin + block.width / 2) / lane.width
                axes.text(middle, row, block.name, ha="center", va="center", fontsize=7)
        axes.set_yticks(range(len(shown)), [lane.name for lane in shown])
        axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.set_xlabel("memory of the GPU, slice by slice", color=INK)
        axes.spines[:].set_visible(False)
        uses = {block.use for lane in shown for block in lane.blocks}
        keys = [Patch(color=use.value, label=use.name.lower()) for use in SliceUse if use in uses]
        if keys:
            figure.legend(handles=keys, loc="outside upper right", ncols=4, frameon=False)
        return element(figure)
