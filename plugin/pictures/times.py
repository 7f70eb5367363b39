"""The picture of a ranking: each place's time with its 90 % interval, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from berth.pilot.errors import UsageError
from berth.plugin.pictures.figure import check_ending, drawing, element, save, time_ticks

MOST = 20
PREDICTED = "predicted time with its 90 % interval"
_MOST_BELOW = 1e3
"""How far an interval is drawn below its middle: zero is nowhere on a logarithmic axis."""
_TRUSTED, _DOUBTED, _GRID, _REAL = "#2f6690", "#9aa3ad", "#d9dee3", "#b5493b"


@dataclass(frozen=True, slots=True)
class Row:
    """One place. Seconds: low, middle and high."""

    name: str
    seconds: tuple[float, float, float]
    doubtful: bool = False
    """Predicted, but nothing to act on: a prior, or an abstention."""


def ranked_times(rows: Sequence[Row], *, took_s: float | None = None, what: str = PREDICTED) -> str:
    """SVG of the first ``MOST`` rows, in their order; ``took_s`` is drawn as what really came.

    Raises ToolMissing without matplotlib.
    """
    with drawing(_GRID):
        return element(_figure(rows, took_s, what))


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Write that picture. Raises ToolMissing, UsageError for another ending or no rows."""
    check_ending(path)
    if not rows:
        raise UsageError("there is no predicted time to draw")
    with drawing(_GRID):
        save(_figure(rows, None, PREDICTED), path, dpi=150, facecolor="white")


def _figure(rows: Sequence[Row], took_s: float | None, what: str) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the extra

    shown = list(rows)[:MOST]
    figure = Figure(figsize=(7.2, 0.7 + 0.28 * max(2, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(shown):
        low, mid, high = row.seconds
        colour = _DOUBTED if row.doubtful else _TRUSTED
        ends = (max(low, mid / _MOST_BELOW), high)
        axes.plot(ends, (place, place), color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot((mid,), (place,), "o", color=colour, markersize=5)
    if took_s is not None:
        axes.axvline(took_s, color=_REAL, linewidth=1.5, linestyle="--")
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [row.name for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    time_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel(what if took_s is None else f"{what}; dashed: how long it really took")
    axes.grid(axis="x", color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
