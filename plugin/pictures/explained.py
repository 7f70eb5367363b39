"""Draws an explanation: what determines a program's speedup on each platform, and its bottleneck.

Left, one panel per platform: bars from a typical program's speedup to this program's, each with the
factor of one group of counters. Right, a radar chart with the share of the roofline's time that
each resource needs; the shares overlap. SVG or PNG by the file's ending; matplotlib (the `ui`
extra) is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from berth.pilot.errors import UsageError
from berth.plugin.pictures.figure import INK, drawing, element
from berth.predictor.families.program.explain import CounterEffect, SpeedupExplanation

MOST_PANELS = 4
MOST_BARS = 6
FINE_OCTAVES = 4.0
FINE_STEPS, COARSE_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 3.0)
OTHERS = "all others"
UP, DOWN, REST, GRID = "#2a7f62", "#b5493b", "#9aa3ad", "#d9dee3"
COLOURS = ("#2f6690", "#d98324", "#6c4a8b", "#2a7f62")
AXES = (
    ("compute", ("flops", "instructions")),
    ("caches", ("l1", "l2", "l3")),
    ("memory", ("dram",)),
    ("branches", ("branches",)),
    ("atomics", ("atomics", "scattered")),
    ("launches", ("launches",)),
    ("serial", ("serial",)),
)
"""Spokes of the radar chart: each is a resource, with the parts of the roofline's time that it
covers; the largest part is drawn. Spokes without a share are left out."""

SHARES = "Share of the roofline's time that each needs (parts overlap)"


def svg(program: str, explanations: Sequence[SpeedupExplanation]) -> str:
    """Return, as an SVG element, the picture that explains a program's speedup on the first few
    platforms other than its own.

    Raises ToolMissing without matplotlib, UsageError where there is nothing to show.
    """
    with drawing(GRID):
        return element(_figure(program, explanations))


def _figure(program: str, explanations: Sequence[SpeedupExplanation]) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    shown = [explanation for explanation in explanations if not explanation.at_home][:MOST_PANELS]
    if not shown:
        raise UsageError("there is no platform to explain but the program's own")
    rows = len(shown)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(11.5, max(4.6, 1.1 + 2.05 * rows)), layout=layout)
    grid = figure.add_gridspec(rows, 2, width_ratios=(1.45, 1.0))
    reach = max(max(_path(explanation)[1]) - min(_path(explanation)[1]) for explanation in shown)
    for index, explanation in enumerate(shown):
        _bars(figure.add_subplot(grid[index, 0]), explanation, COLOURS[index], reach)
    _radar(figure.add_subplot(grid[:, 1], projection="polar"), shown)
    figure.suptitle(
        f"Why {program} runs as it does elsewhere", x=0.015, ha="left", fontsize=13, weight="bold"
    )
    return figure


def _path(explanation: SpeedupExplanation) -> tuple[list[CounterEffect], list[float]]:
    """Return the largest effects, with all others combined into one, and the log2 of the speedup at
    which each bar starts."""
    rest = math.prod(effect.factor for effect in explanation.effects[MOST_BARS - 1 :])
    bars = [*explanation.effects[: MOST_BARS - 1], CounterEffect(OTHERS, (), rest)]
    stops = [math.log2(explanation.typical_speedup)]
    for bar in bars:
        stops.append(stops[-1] + math.log2(bar.factor))
    return bars, stops


def _bars(axes: Any, explanation: SpeedupExplanation, colour: str, reach: float) -> None:
    bars, stops = _path(explanation)
    middle = (max(stops) + min(stops)) / 2
    room = 0.62 * max(reach, 1.0)
    for index, bar in enumerate(bars):
        shade = REST if bar.name == OTHERS else (UP if bar.factor > 1 else DOWN)
        axes.barh(
            index, math.log2(bar.factor), left=stops[index], height=0.66, color=shade, zorder=3
        )
        axes.plot([stops[index + 1]] * 2, [index - 0.33, index + 1.33], color=INK, lw=0.7, zorder=4)
        end = max(stops[index], stops[index + 1])
        axes.text(
            end + 0.025 * room,
            index,
            bar.shown,
            va="center",
            fontsize=8,
            color=INK,
            zorder=5,
        )
    axes.plot([stops[0]] * 2, [-1.0, 0.33], color=INK, lw=0.7, zorder=4)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.set_ylim(len(bars) - 0.1, -1.25)
    axes.set_xlim(middle - room, middle + room)
    _ticks(axes, middle - room, middle + room)
    axes.grid(axis="x", color=GRID, lw=0.7, zorder=0)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.text(
        stops[0],
        -0.95,
        f"typical {explanation.typical_speedup:.3g}x ",
        ha="right",
        va="center",
        fontsize=8,
    )
    axes.set_title(
        explanation.platform, loc="left", color=colour, weight="bold", fontsize=10.5, pad=3
    )
    axes.set_title(
        f"{explanation.speedup:.3g}x   {explanation.bound.value}-bound",
        loc="right",
        fontsize=9.5,
        pad=3,
    )


def _ticks(axes: Any, low: float, high: float) -> None:
    steps = FINE_STEPS if high - low < FINE_OCTAVES else COARSE_STEPS
    decades = range(math.floor(low / math.log2(10)) - 1, math.ceil(high / math.log2(10)) + 1)
    marks = [step * 10.0**d for d in decades for step in steps]
    marks = [mark for mark in marks if low <= math.log2(mark) <= high]
    axes.set_xticks([math.log2(m) for m in marks], [f"{m:.3g}x" for m in marks], fontsize=8)


def _radar(axes: Any, shown: list[SpeedupExplanation]) -> None:
    spokes = [axis for axis in AXES if set(axis[1]) <= set(shown[0].shares)]
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes))]
    closed = [*angles, angles[0]]
    for explanation, colour in zip(shown, COLOURS, strict=False):
        needs = [min(1.0, max(explanation.shares[part] for part in parts)) for _, parts in spokes]
        values = [*needs, needs[0]]
        axes.plot(closed, values, color=colour, lw=2.0, label=explanation.platform, zorder=3)
        axes.fill(closed, values, color=colour, alpha=0.10, zorder=2)
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, [name for name, _ in spokes], fontsize=9.5)
    axes.tick_params(axis="x", pad=8)
    axes.set_ylim(0, 1.0)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "50 %", "", "100 %"], fontsize=7.5, color=INK)
    axes.set_rlabel_position(3.5 * 360 / len(spokes))
    axes.grid(color=GRID, lw=0.7)
    axes.spines["polar"].set_color(GRID)
    axes.set_title(SHARES, fontsize=10, pad=16)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncol=2, frameon=False, fontsize=9)
