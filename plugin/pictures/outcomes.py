"""Pictures of how predictions held: real over predicted times, coverage, what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from berth.plugin.pictures.figure import INK, drawing, element, time_ticks

MOST_POINTS = 2_000
MOST_ROWS = 16
_GRID, _IN, _OUT, _LINE = "#d9dee3", "#2f6690", "#b5493b", "#9aa3ad"
_LEAST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Compared:
    """One finished job, in seconds."""

    predicted_s: float
    real_s: float
    inside: bool
    """Of its 90 % interval."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of one group with its interval, from 0 to 1."""

    name: str
    low: float
    mid: float
    high: float


def real_times(jobs: Sequence[Compared]) -> str:
    """SVG: each job's real time over its predicted time, both on log axes."""
    shown = list(jobs)[-MOST_POINTS:]
    with drawing(_GRID):
        figure, axes = _axes(5.2, 4.4)
        for inside, colour, label in (
            (True, _IN, "inside its 90 % interval"), (False, _OUT, "outside"),
        ):  # fmt: skip
            some = [one for one in shown if one.inside is inside]
            axes.scatter(
                [max(one.predicted_s, _LEAST_S) for one in some],
                [max(one.real_s, _LEAST_S) for one in some],
                s=14, color=colour, alpha=0.7, label=f"{label}: {len(some)}", zorder=3,
            )  # fmt: skip
        every = [max(v, _LEAST_S) for one in shown for v in (one.predicted_s, one.real_s)]
        ends = (min(every) / 1.5, max(every) * 1.5)
        axes.plot(ends, ends, color=_LINE, linewidth=1, zorder=2)
        for set_scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
            set_scale("log")
            time_ticks(axis, *ends)
        axes.set(xlim=ends, ylim=ends, xlabel="predicted time", ylabel="real time")
        axes.legend(frameon=False, fontsize=8)
        return element(figure)


def shares(rows: Sequence[Share], *, promised: float, what: str) -> str:
    """SVG of shares with their intervals, beside what is promised."""
    shown = list(rows)[:MOST_ROWS]
    with drawing(_GRID):
        figure, axes = _axes(6.4, 0.9 + 0.3 * max(2, len(shown)))
        for place, one in enumerate(shown):
            colour = _OUT if one.high < promised else _IN
            axes.plot((100 * one.low, 100 * one.high), (place, place), color=colour, linewidth=3)
            axes.plot((100 * one.mid,), (place,), "o", color=colour, markersize=5)
        axes.axvline(100 * promised, color=INK, linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(shown)), [one.name for one in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 102)
        axes.set_xlabel(what)
        return element(figure)


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
