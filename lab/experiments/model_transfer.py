"""Latency of models on a platform never trained on."""

from __future__ import annotations

import json
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.families.graph.latency.transfer.posterior import Width
from lab.experiments.options import Options
from lab.experiments.shown import show_report

FIGURES = "few-shot-dl"


def evaluate(options: Options) -> None:
    """Curves of error against samples; with ``report`` also JSON, Markdown and a picture."""
    from lab.transfer import evaluate_transfer, new_machine, transfer_cases  # noqa: PLC0415
    from lab.transfer.transfer_report import draw, few_shot_report  # noqa: PLC0415

    table = transfer_cases.timm_cases()
    with step_bar("evaluating", evaluate_transfer.steps(table)) as advance:
        found = evaluate_transfer.evaluate_few_shot(table, seed=options.seed, advance=advance)
    machine = new_machine.evaluate_new_machine(seed=options.seed)
    show_report(options, few_shot_report(found, machine), FIGURES)
    if options.report is not None:
        draw(options.report / f"{FIGURES}.svg", found)


def train(options: Options) -> str:
    """The bundle from timm's measurements; widths from ``figures`` or from held-out devices."""
    from lab.transfer import evaluate_transfer, transfer_bundle, transfer_cases  # noqa: PLC0415
    from lab.transfer.transfer_methods import METHODS  # noqa: PLC0415

    table = transfer_cases.timm_cases()
    if options.figures is None:
        with step_bar("evaluating", evaluate_transfer.steps(table)) as advance:
            widths = evaluate_transfer.evaluate_few_shot(
                table, seed=options.seed, methods=METHODS[:1], advance=advance
            ).widths()
    else:
        widths = _widths(options.figures)
    split = f"{evaluate_transfer.SPLIT}; {', '.join(evaluate_transfer.WIDTHS[:2])}"
    manifest = transfer_bundle.train(
        table, widths, split, options.bundle, seed=options.seed, command=command_line()
    )
    return f"{manifest.id}: {manifest.training.rows} measurements"


def _widths(path: Path) -> list[Width]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [Width(**one) for one in found["widths"]]
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise DocumentError(
            path, "is not this evaluation",
            hint=f"`python -m lab model-transfer --report DIR` writes {FIGURES}.json",
        ) from None  # fmt: skip
