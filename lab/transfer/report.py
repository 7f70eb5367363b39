"""Few-shot figures as tables and as a picture: error against samples, rivals side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from berth.plugin.pictures.figure import drawing, save
from lab.transfer.baselines import METHODS
from lab.transfer.curves import (
    ADVISED,
    DEVICE,
    SEEN,
    STACK,
    UNSEEN,
    Curve,
    FewShot,
)
from lab.transfer.own_runs import SPLIT as OWN_SPLIT
from lab.transfer.own_runs import OwnRuns

HEADER = ("on", "models", "method")
OWN_HEADER = ("samples", "Acc(10 %)", "MAPE", "median", "advised: Acc(10 %)", "MAPE")
FAMILY_HEADER = ("new family", "rows", "samples", "Acc(10 %)", "MAPE", "median", "tau")
_GRID = "#e4e8ec"
_COLOURS = ("#2f6690", "#9aa3ad", "#2a7f62", "#d98324", "#6c4a8b", "#b04a4a", "#16324f")


def names() -> tuple[str, ...]:
    """Methods in the order of tables."""
    return (*(one.name for one in METHODS), ADVISED)


def sections(found: FewShot) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """(what the samples are drawn from, rows under ``HEADER`` and each number of samples).

    A cell is Acc(10 %) with its least and greatest draw, and MAPE.
    """
    for gpu, kind in ((True, "GPUs"), (False, "CPUs")):
        for drawn_from in (STACK, DEVICE):
            rows = [
                (kind, models, name, *_cells(curve))
                for models in (SEEN, UNSEEN)
                for name in names()
                if (curve := found.mean(
                    gpu=gpu, drawn_from=drawn_from, models=models, method=name
                )) is not None
            ]  # fmt: skip
            if rows:
                yield f"{kind}, samples of {drawn_from}", rows
    rows = [
        (curve.device, curve.models, curve.drawn_from, *_cells(curve))
        for curve in found.curves
        if curve.method == "process"
    ]
    yield "process by device", rows


def family_rows(found: FewShot) -> list[tuple[str, ...]]:
    """Under ``FAMILY_HEADER``."""
    return [
        (
            one.family, str(one.rows), str(one.samples),
            f"{one.within:.0%} ({one.within_low:.0%} to {one.within_high:.0%})",
            f"{one.mape:.1%}", f"{one.median:.1%}", f"{one.tau:.2f}",
        )
        for one in found.families
    ]  # fmt: skip


def own_rows(own: Sequence[OwnRuns]) -> list[tuple[str, ...]]:
    """Under ``OWN_HEADER``."""
    return [
        (
            str(one.samples),
            f"{one.within:.0%} ({one.within_low:.0%} to {one.within_high:.0%})",
            f"{one.mape:.1%}", f"{one.median:.1%}", f"{one.advised_within:.0%}",
            f"{one.advised_mape:.1%}",
        )
        for one in own
    ]  # fmt: skip


def _cells(curve: Curve) -> list[str]:
    parts = zip(curve.within, curve.within_low, curve.within_high, curve.mape, strict=True)
    return [
        f"{within:.0%} ({low:.0%} to {high:.0%}), {mape:.1%}" for within, low, high, mape in parts
    ]


def markdown(found: FewShot, own: Sequence[OwnRuns] = ()) -> str:
    """The report."""
    lines = [
        "# Latency on a new platform by samples", "", f"Split: {found.split}.", "",
        "Each cell: share of rows within 10 % (least and greatest of the draws), MAPE.", "",
    ]  # fmt: skip
    for title, rows in sections(found):
        header = (*HEADER, *(f"k = {k}" for k in found.samples))
        lines += [f"## {title}", "", *_table(header, rows), ""]
    lines += ["## New family of models, rows of all devices", ""]
    lines += [*_table(FAMILY_HEADER, family_rows(found)), ""]
    if own:
        lines += ["## Our own runs", "", f"Split: {OWN_SPLIT}.", ""]
        lines += [*_table(OWN_HEADER, own_rows(own)), ""]
    lines += ["Methods: " + "; ".join(f"*{one.name}*: {one.what}" for one in METHODS) + "."]
    return "\n".join(lines) + "\n"


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    bars = "|".join(["---"] * len(header))
    return [f"| {' | '.join(header)} |", f"|{bars}|", *(f"| {' | '.join(row)} |" for row in rows)]


def draw(path: Path, found: FewShot) -> None:
    """The picture: Acc(10 %) against samples of one stack, GPUs and CPUs, seen and unseen models.

    Raises ToolMissing without matplotlib.
    """
    with drawing(_GRID):
        from matplotlib.figure import Figure  # noqa: PLC0415 - of the `train` extra

        figure = Figure(figsize=(9.5, 6.6), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        for row, (gpu, kind) in enumerate(((True, "GPUs"), (False, "CPUs"))):
            for column, models in enumerate((SEEN, UNSEEN)):
                panel = axes[row][column]
                _panel(panel, found, gpu, models)
                panel.set_title(f"{kind}, models {models}", fontsize=10)
        for panel in axes[1]:
            panel.set_xlabel("samples of the new platform")
        for panel in axes[:, 0]:
            panel.set_ylabel("within 10 %")
        axes[1][0].legend(fontsize=7, frameon=False, loc="upper left")
        save(figure, path)


def _panel(panel: Any, found: FewShot, gpu: bool, models: str) -> None:
    places = range(len(found.samples))
    for name, colour in zip(names(), _COLOURS, strict=True):
        curve = found.mean(gpu=gpu, drawn_from=STACK, models=models, method=name)
        if curve is None:
            continue
        panel.plot(
            places, [100 * x for x in curve.within], color=colour, label=name, marker="o",
            markersize=3, linewidth=2.2 if name == "process" else 1.2,
            linestyle="--" if name == ADVISED else "-",
        )  # fmt: skip
        if name == "process":
            panel.fill_between(
                places, [100 * x for x in curve.within_low], [100 * x for x in curve.within_high],
                color=colour, alpha=0.15, linewidth=0,
            )  # fmt: skip
    panel.set_xticks(list(places), [str(k) for k in found.samples])
    panel.set_ylim(0, 100)
    panel.grid(color=_GRID, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
