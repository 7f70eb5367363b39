"""The common style of all pictures, and how they are written.

A picture's file is written completely or not at all, even if the disk is full. matplotlib (the
`ui` extra) is imported when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from berth.pilot.errors import ToolMissing
from berth.pilot.units import format_seconds

INK = "#22303c"


_ROUND_S = (*(10.0**n for n in range(-9, 2)), 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
_BETWEEN_S = (
    *(factor * 10.0**n for n in range(-9, 1) for factor in (2.0, 5.0)),
    20.0, 30.0, 120.0, 300.0, 1_200.0, 1_800.0, 7_200.0, 14_400.0, 172_800.0, 432_000.0,
)  # fmt: skip
_FEWEST, _MOST = 3, 7


def time_ticks(axis: Any, low: float, high: float) -> None:
    """Set ticks at round times, such as 1 min or 1 h, on a logarithmic axis of seconds."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: PLC0415

    marks = [mark for mark in _ROUND_S if low <= mark <= high]
    if len(marks) < _FEWEST:
        marks = sorted(mark for mark in (*_ROUND_S, *_BETWEEN_S) if low <= mark <= high)
    if len(marks) < _FEWEST - 1:
        marks = [low * (high / low) ** share for share in (0.1, 0.5, 0.9)]
    axis.set_major_locator(FixedLocator(marks[:: 1 + len(marks) // (_MOST + 1)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _mark(value)))
    axis.set_minor_locator(NullLocator())


def _mark(seconds: float) -> str:
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return format_seconds(seconds)


@contextmanager
def drawing(edges: str) -> Iterator[None]:
    """Apply the common style of all pictures while the block runs; ``edges``: colour of axes.
    Raises ToolMissing without matplotlib."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - of the `ui` extra
    except ImportError:
        raise ToolMissing(
            "matplotlib", needed_for="drawing a picture", hint="pip install 'berth[ui]'"
        ) from None
    style: dict[Any, Any] = {
        "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK, "axes.labelcolor": INK,
        "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": edges, "svg.fonttype": "path",
        "svg.hashsalt": "berth",
    }  # fmt: skip
    with mpl.rc_context(style):
        yield


def axes_of(grid: str, width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of this size in inches, and its only axes: a grid of this colour behind the
    drawing, and no frame above and on the right."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - of the `train` extra

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(color=grid, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def element(figure: Any) -> str:
    """Return a matplotlib figure as an SVG element for a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
