"""The picture of a fleet: each GPU's slices as blocks of its memory, now and by a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from berth.plugin.pictures.figure import INK, drawing, element

MOST = 32
"""GPUs that are drawn; the tables have all."""
_ROOM, _EDGE = "#eef1f4", "#ffffff"


class Use(Enum):
    """What a slice is, and its colour."""

    FREE = "#cfe2f3"
    BUSY = "#f3c98b"
    NEW = "#bfe3d0"
    GONE = "#f0b8ae"


@dataclass(frozen=True, slots=True)
class Block:
    """One slice: from memory slice ``begin`` (0 first), so many wide."""

    name: str
    begin: int
    width: int
    use: Use


@dataclass(frozen=True, slots=True)
class Lane:
    """One GPU at one moment; no blocks: MIG is off, or nothing is cut."""

    name: str
    width: int
    """Memory slices in all."""
    blocks: Sequence[Block]


def fleet(lanes: Sequence[Lane]) -> str:
    """SVG of the lanes from the top down. Raises ToolMissing without matplotlib."""
    shown = list(lanes)[:MOST]
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
        keys = [Patch(color=use.value, label=use.name.lower()) for use in Use if use in uses]
        if keys:
            figure.legend(handles=keys, loc="outside upper right", ncols=4, frameon=False)
        return element(figure)
