"""Draws a roofline chart: a model's operators under the ceilings of up to four platforms.

Each disc is one kind of operator: horizontally its flops per byte, vertically its predicted flop/s,
and its area is its share of the time. A bar below each panel shows which resources limit the time.
SVG, PNG or PDF by the file's ending; matplotlib (the `ui` extra) is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from berth.pilot.units import format_count, format_seconds
from berth.plugin.pictures.figure import INK, drawing, element
from berth.predictor.core.prediction import Bound
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import Roofline, Spot
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

MOST_PANELS = 4
LABELLED = 4
"""Maximum number of operators named in a panel."""
GRID, FAINT, PAPER = "#e4e8ec", "#8a96a3", "#ffffff"
LARGEST_AREA = 420.0
GROUPS: tuple[tuple[str, str, frozenset[OpFamily]], ...] = (
    ("convolution", "#2f6690", frozenset({OpFamily.CONVOLUTION})),
    ("matrix product, attention", "#6c4a8b",
     frozenset({OpFamily.MATMUL, OpFamily.ATTENTION, OpFamily.RECURRENT})),
    ("normalisation, softmax", "#d98324",
     frozenset({OpFamily.NORMALISATION, OpFamily.SOFTMAX, OpFamily.POOLING, OpFamily.REDUCTION})),
    ("pointwise", "#2a7f62",
     frozenset({OpFamily.ACTIVATION, OpFamily.ELEMENTWISE, OpFamily.QUANTISATION})),
)  # fmt: skip
OTHER = ("moving, other", "#9aa3ad")
BOUNDS = ((Bound.COMPUTE, "#3d5a73"), (Bound.MEMORY, "#c98a3c"), (Bound.LAUNCH, "#b9c0c8"))


def svg(model: str, rooflines: Sequence[Roofline]) -> str:
    """Return the roofline chart as an SVG element. Raises ToolMissing without matplotlib."""
    with drawing(GRID):
        return element(_figure(model, rooflines[:MOST_PANELS]))


def _figure(model: str, rooflines: Sequence[Roofline]) -> Any:
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    columns = min(2, len(rooflines))
    rows = math.ceil(len(rooflines) / columns)
    figure = Figure(figsize=(6.9 * columns + 0.4, 5.6 * rows + 1.2), facecolor=PAPER)
    top, bottom = 1 - 0.95 / figure.get_figheight(), 0.62 / figure.get_figheight()
    left = 0.55 / figure.get_figwidth() + 0.03
    grid = figure.add_gridspec(
        2 * rows, columns, height_ratios=[1.0, 0.06] * rows, left=left,
        right=1 - 0.25 / figure.get_figwidth(), top=top, bottom=bottom, hspace=0.32, wspace=0.2,
    )  # fmt: skip
    for index, roofline in enumerate(rooflines):
        row, column = divmod(index, columns)
        _panel(figure.add_subplot(grid[2 * row, column]), roofline)
        _strip(figure.add_subplot(grid[2 * row + 1, column]), roofline)
    first = rooflines[0]
    subtitle = (
        f"batch {first.batch}, {first.numbers.value}; predicted (prior); area: share of the time"
    )
    figure.text(left, 1 - 0.3 / figure.get_figheight(), f"{model} under the roofs",
                fontsize=13, fontweight="bold", va="center")  # fmt: skip
    figure.text(left, 1 - 0.55 / figure.get_figheight(), subtitle, color=FAINT, va="center")
    keys = [(name, colour) for name, colour, _ in GROUPS] + [OTHER]
    marks = [
        Line2D([], [], marker="o", linestyle="", markersize=7, color=colour, alpha=0.85, label=name)
        for name, colour in keys
    ]
    figure.legend(handles=marks, loc="lower center", ncols=len(marks) if columns > 1 else 3,
                  frameon=False, bbox_to_anchor=(0.5, 0.0), handletextpad=0.2,
                  columnspacing=1.4)  # fmt: skip
    return figure


def _panel(axes: Any, roofline: Roofline) -> None:
    whole = sum(spot.seconds for spot in roofline.spots)
    shown = [spot for spot in roofline.spots if spot.flops > 0 and spot.moved_bytes > 0]
    x = [spot.intensity for spot in shown]
    peak = max(roofline.roof.matrix_flops[roofline.numbers], roofline.roof.vector_flops)
    low_x = 10 ** math.floor(math.log10(min([*x, 0.3])))
    high_x = 10 ** math.ceil(math.log10(max([*x, 4 * peak / roofline.roof.dram_bytes])))
    reached = [spot.flops_per_s for spot in shown if spot.seconds > 0.001 * whole]
    low_y = min([*reached, roofline.roof.dram_bytes * low_x]) / 5
    axes.set(xscale="log", yscale="log", xlim=(low_x, high_x), ylim=(low_y, peak * 3.2))
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    _draw_roofs(axes, roofline.roof, roofline.numbers, (low_x, high_x), low_y)
    for spot in sorted(shown, key=lambda s: -s.seconds):
        axes.scatter(
            spot.intensity, max(spot.flops_per_s, low_y * 1.05),
            s=_area(spot, shown), color=_colour(spot), alpha=0.8,
            edgecolor=PAPER, linewidth=0.8, zorder=3,
        )  # fmt: skip
    _labels(axes, shown, whole)
    axes.set_xlabel("FLOPs a byte")
    axes.set_ylabel("FLOP/s")
    axes.set_title(
        f"{roofline.roof.platform}   {format_seconds(roofline.seconds.mid)}  "
        f"({format_seconds(roofline.seconds.low)} to {format_seconds(roofline.seconds.high)})",
        loc="left", fontsize=10.5, fontweight="bold", pad=8,
    )  # fmt: skip


def _draw_roofs(
    axes: Any, roof: Roof, numbers: Numbers, span: tuple[float, float], floor: float
) -> None:
    peak = max(roof.matrix_flops[numbers], roof.vector_flops)
    x = np.geomspace(*span, 400)
    slopes = [("main memory", roof.dram_bytes, 1.6, INK)]
    if roof.l2_bytes > 1.05 * roof.dram_bytes:
        slopes.append(("L2" if roof.is_gpu else "last-level cache", roof.l2_bytes, 1.0, FAINT))
    if roof.l1_bytes > 1.05 * roof.l2_bytes:
        slopes.append(("L1", roof.l1_bytes, 1.0, FAINT))
    box = axes.get_window_extent()
    decades_x, decades_y = math.log10(span[1] / span[0]), math.log10(peak * 3.2 / floor)
    angle = math.degrees(math.atan2(box.height / decades_y, box.width / decades_x))
    for name, rate, width, colour in slopes:
        axes.plot(x, np.minimum(peak, rate * x), color=colour, linewidth=width, zorder=2)
        begin = max(span[0], floor / rate)
        at = begin * (peak / rate / begin) ** 0.1
        axes.text(at, rate * at * 1.2, f"{name} {format_count(rate)}B/s", color=colour,
                  fontsize=7.5, rotation=angle, rotation_mode="anchor", va="bottom")  # fmt: skip
    peaks = [(f"{numbers.value}, matrix units", roof.matrix_flops[numbers])]
    if roof.vector_flops < 0.95 * peaks[0][1]:
        peaks.append(("fp32, all else", roof.vector_flops))
    elif not roof.is_gpu or roof.vector_flops == peaks[0][1]:
        peaks = [(f"{numbers.value}" if not roof.is_gpu else "fp32", peaks[0][1])]
    for name, rate in peaks:
        axes.plot([rate / roof.l1_bytes, span[1]], [rate, rate], color=INK, linewidth=1.2,
                  linestyle="-" if rate == peak else (0, (4, 3)), zorder=2)  # fmt: skip
        axes.text(span[1] * 0.97, rate * 1.1, f"{name} {format_count(rate)}FLOP/s", fontsize=7.5,
                  ha="right", va="bottom")  # fmt: skip


def _labels(axes: Any, shown: Sequence[Spot], whole: float) -> None:
    """Label the operators that take the most time, below their discs, without overlap."""
    wide = math.log10(axes.get_xlim()[1] / axes.get_xlim()[0])
    high = math.log10(axes.get_ylim()[1] / axes.get_ylim()[0])
    placed: list[tuple[float, float]] = []
    for spot in sorted(shown, key=lambda s: -s.seconds):
        if len(placed) == LABELLED:
            return
        x, y = math.log10(spot.intensity) / wide, math.log10(spot.flops_per_s) / high
        if any(abs(x - a) < 0.27 and abs(y - b) < 0.07 for a, b in placed):
            continue
        placed.append((x, y))
        radius = math.sqrt(_area(spot, shown) / math.pi)
        across = x - math.log10(axes.get_xlim()[0]) / wide
        axes.annotate(
            f"{spot.operator}, {spot.nodes}x: {spot.seconds / whole:.0%}",
            (spot.intensity, spot.flops_per_s), xytext=(0, -radius - 3),
            textcoords="offset points", va="top", fontsize=7.5, zorder=4,
            ha="left" if across < 0.12 else "right" if across > 0.82 else "center",
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )  # fmt: skip


def _area(spot: Spot, shown: Sequence[Spot]) -> float:
    """Return a disc's area in square points: proportional to the time, but large enough to see."""
    return max(9.0, LARGEST_AREA * spot.seconds / max(s.seconds for s in shown))


def _strip(axes: Any, roofline: Roofline) -> None:
    start = 0.0
    for bound, colour in BOUNDS:
        share = roofline.time_share(bound)
        axes.barh(0, share, left=start, color=colour, height=1.0)
        if share > 0.13:
            axes.text(start + share / 2, 0, f"{bound.value} {share:.0%}", color=PAPER
                      if bound is not Bound.LAUNCH else INK, ha="center", va="center",
                      fontsize=8)  # fmt: skip
        start += share
    axes.set(xlim=(0, 1), ylim=(-0.5, 0.5))
    axes.axis("off")


def _colour(spot: Spot) -> str:
    return next((colour for _, colour, families in GROUPS if spot.family in families), OTHER[1])
