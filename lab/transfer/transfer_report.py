"""Few-shot figures as a report and as a picture: error against samples, methods side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berth.plugin.pictures.figure import drawing, save
from lab.ground.few_shot import Point
from lab.ground.report import Report, Section
from lab.transfer.evaluate_transfer import (
    ADVISED,
    DEVICE,
    PROCESS,
    SEEN,
    SPLIT,
    STACK,
    UNSEEN,
    FewShot,
)
from lab.transfer.new_machine import SPLIT as NEW_SPLIT
from lab.transfer.transfer_methods import METHODS

KINDS = ((True, "GPUs"), (False, "CPUs"))
NAMES = (*(one.name for one in METHODS), ADVISED)
_GRID = "#e4e8ec"
_COLOURS = ("#2f6690", "#9aa3ad", "#2a7f62", "#d98324", "#6c4a8b", "#b04a4a", "#16324f")


def few_shot_report(found: FewShot, machine: Mapping[str, tuple[Point, ...]]) -> Report:
    """Cells: Acc(10 %) with its least and greatest draw, and the mean error."""
    counts = tuple(f"k = {k}" for k in found.samples)
    sections = []
    for gpu, kind in KINDS:
        for drawn_from in (STACK, DEVICE):
            rows = [
                (models, name, *(point.cell() for point in curve.points))
                for models in (SEEN, UNSEEN)
                for name in NAMES
                if (curve := found.mean((drawn_from, models, name), gpu=gpu)) is not None
            ]
            if rows:
                title = f"{kind}, samples of {drawn_from}"
                sections.append(Section(title, ("models", "method", *counts), rows))
    rows = [
        (curve.device, curve.models, curve.drawn_from, *(point.cell() for point in curve.points))
        for curve in found.curves if curve.method == PROCESS
    ]  # fmt: skip
    sections.append(Section("process by device", ("on", "models", "samples of", *counts), rows))
    machine_rows = [(name, *(point.cell() for point in points)) for name, points in machine.items()]
    machine_counts = [f"k = {p.samples}" for p in next(iter(machine.values()))]
    sections.append(Section(
        f"Our own runs: {NEW_SPLIT}", ("runs", *machine_counts), machine_rows,
    ))  # fmt: skip
    family_rows = [
        (name, str(rows), str(p.samples), p.cell(), f"{p.mean.median_error:.1%}",
         f"{p.mean.kendall_tau:.2f}")
        for name, rows, points in found.families for p in points
    ]  # fmt: skip
    sections.append(Section(
        "New family of models, process, rows of all devices",
        ("family", "rows", "samples", "Acc(10 %), mean", "median", "tau"), family_rows,
    ))  # fmt: skip
    return Report(
        "Latency on a new platform by samples",
        (f"Split: {SPLIT}.",
         "Cells: share of rows within 10 % (least and greatest draw), mean error."),
        tuple(sections),
        {
            "split": SPLIT, "samples": found.samples, "curves": found.curves,
            "families": found.families, "new_machine": machine, "widths": found.widths(),
            "width_over_need": found.width_over_need(),
        },
        after=("Methods: " + "; ".join(f"{one.name}: {one.what}" for one in METHODS) + ".",),
    )  # fmt: skip


def draw(path: Path, found: FewShot) -> None:
    """The picture: Acc(10 %) against samples of one stack, GPUs and CPUs, seen and unseen models.

    Raises ToolMissing without matplotlib.
    """
    with drawing(_GRID):
        from matplotlib.figure import Figure  # noqa: PLC0415 - of the `train` extra

        figure = Figure(figsize=(9.5, 6.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        for row, (gpu, kind) in enumerate(KINDS):
            for column, models in enumerate((SEEN, UNSEEN)):
                panel = axes[row][column]
                _panel(panel, found, models, gpu=gpu)
                panel.set_title(f"{kind}, models {models}", fontsize=10)
        for panel in axes[1]:
            panel.set_xlabel("samples of the new platform")
        for panel in axes[:, 0]:
            panel.set_ylabel("within 10 %")
        axes[1][0].legend(fontsize=7, frameon=False, loc="upper left")
        save(figure, path)


def _panel(panel: Any, found: FewShot, models: str, *, gpu: bool) -> None:
    places = range(len(found.samples))
    for name, colour in zip(NAMES, _COLOURS, strict=True):
        curve = found.mean((STACK, models, name), gpu=gpu)
        if curve is None:
            continue
        share, low, high = (
            [100 * getattr(point, what).within_10 for point in curve.points]
            for what in ("mean", "low", "high")
        )
        panel.plot(
            places, share, color=colour, label=name, marker="o", markersize=3,
            linewidth=2.2 if name == PROCESS else 1.2, linestyle="--" if name == ADVISED else "-",
        )  # fmt: skip
        if name == PROCESS:
            panel.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.set_xticks(list(places), [str(k) for k in found.samples])
    panel.set_ylim(0, 100)
    panel.grid(color=_GRID, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
