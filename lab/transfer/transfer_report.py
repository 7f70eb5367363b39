"""Few-shot figures as a report and as a picture: error against samples, methods side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.graph.transfer.posterior import TransferWidth
from lab.experiments.experiment import Options
from lab.ground.figures import Point
from lab.ground.report import Report, Section
from lab.transfer import evaluate_transfer, new_machine, transfer_bundle, transfer_cases
from lab.transfer.evaluate_transfer import (
    PROCESS,
    SEEN,
    SPLIT,
    UNSEEN,
    FewShot,
)
from lab.transfer.new_machine import SPLIT as NEW_SPLIT
from lab.transfer.transfer_methods import METHODS

KINDS = ((True, "GPUs"), (False, "CPUs"))
NAMES = tuple(one.name for one in METHODS)


def few_shot_report(found: FewShot, machine: Mapping[str, tuple[Point, ...]]) -> Report:
    """Cells: Acc(10 %) with its least and greatest draw, and the mean error."""
    counts = tuple(f"k = {k}" for k in found.samples)
    sections = []
    for gpu, kind in KINDS:
        rows = [
            (models, name, *(point.cell() for point in curve.points))
            for models in (SEEN, UNSEEN)
            for name in NAMES
            if (curve := found.mean((models, name), gpu=gpu)) is not None
        ]
        if rows:
            sections.append(Section(kind, ("models", "method", *counts), rows))
    rows = [
        (curve.device, curve.models, *(point.cell() for point in curve.points))
        for curve in found.curves if curve.method == PROCESS
    ]  # fmt: skip
    sections.append(Section("process by device", ("on", "models", *counts), rows))
    machine_rows = [(name, *(point.cell() for point in points)) for name, points in machine.items()]
    machine_counts = [f"k = {p.samples}" for p in next(iter(machine.values()))]
    sections.append(Section(
        f"Our own runs: {NEW_SPLIT}", ("runs", *machine_counts), machine_rows,
    ))  # fmt: skip
    return Report(
        "Latency on a new platform by samples",
        (f"Split: {SPLIT}.",
         "Cells: share of rows within 10 % (least and greatest draw), mean error."),
        tuple(sections),
        {
            "split": SPLIT, "samples": found.samples, "curves": found.curves,
            "new_machine": machine,
            "widths": [width.model_dump() for width in found.widths()],
        },
        after=("Methods: " + "; ".join(f"{one.name}: {one.what}" for one in METHODS) + ".",),
    )  # fmt: skip


def evaluate(options: Options) -> Report:
    """Report curves of error against samples."""
    table = transfer_cases.timm_cases()
    with step_bar("evaluating", evaluate_transfer.steps(table)) as advance:
        found = evaluate_transfer.evaluate_few_shot(table, seed=options.seed, advance=advance)
    machine = new_machine.evaluate_new_machine(seed=options.seed)
    return few_shot_report(found, machine)


def train(options: Options) -> str:
    """Return the bundle from timm's measurements; widths from ``figures`` or from held-out
    devices."""
    table = transfer_cases.timm_cases()
    if options.figures is None:
        with step_bar("evaluating", evaluate_transfer.steps(table)) as advance:
            widths = evaluate_transfer.evaluate_few_shot(
                table, seed=options.seed, methods=METHODS[:1], advance=advance
            ).widths()
    else:
        widths = _widths(options.figures)
    split = f"{evaluate_transfer.SPLIT}; {evaluate_transfer.WIDTHS[0]}"
    manifest = transfer_bundle.train(
        table, widths, split, options.bundle, seed=options.seed, command=command_line()
    )
    return f"{manifest.id}: {manifest.training.rows} measurements"


def _widths(path: Path) -> list[TransferWidth]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [TransferWidth(**one) for one in found["widths"]]
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise DocumentError(
            path, "is not this evaluation",
            hint="`python -m lab model-transfer --report DIR` writes evaluation.json",
        ) from None  # fmt: skip
