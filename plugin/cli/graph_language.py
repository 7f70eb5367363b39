"""``berth train|evaluate --task graph-language CONFIG``: GNN + language model from one file."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import Advance, step_bar
from berth.plugin.cli.training_input import require_networks

if TYPE_CHECKING:
    from berth.predictor.training.latency.language.stages import Stages

TASK = "graph-language"


def one_config(given: tuple[Path, ...] | Path | None, out: Path | None = None) -> Path:
    """The only argument. Raises UsageError where there is none or more, or a folder is named."""
    if out is not None:
        raise UsageError(f"--task {TASK} takes no --out: its configuration names the folder")
    files = (given,) if isinstance(given, Path) else (given or ())
    if len(files) != 1:
        raise UsageError(
            f"--task {TASK} takes one configuration file", hint="see docs/graph-language.md"
        )
    return files[0]


def _stages(file: Path) -> Stages:
    require_networks("GNN + language model")
    from berth.predictor.training.latency.language.pretrained import (  # noqa: PLC0415
        require_language,
    )

    require_language("GNN + language model")
    from berth.predictor.training.latency.language.config import read_config  # noqa: PLC0415
    from berth.predictor.training.latency.language.corpus import published  # noqa: PLC0415
    from berth.predictor.training.latency.language.parts import Parts  # noqa: PLC0415
    from berth.predictor.training.latency.language.stages import Stages  # noqa: PLC0415

    config = read_config(file)
    parts = Parts(config, file.parent, published(config))
    if config.language_model.path is not None:
        _ = parts.checkpoint  # a folder that is none is named before hours of training

    def progress(what: str, total: int) -> AbstractContextManager[Advance]:
        return step_bar(what, total)

    return Stages(parts, progress)


def train_graph_language(file: Path) -> None:
    """All stages that are not done; prints what each ended with."""
    stages = _stages(file)
    done = stages.all()
    click.echo(
        columns(
            ("stage", "steps", "loss of the first epoch", "of the last"),
            [
                (
                    name,
                    str(card.steps),
                    f"{card.losses[0]:.4f}" if card.losses else "-",
                    f"{card.losses[-1]:.4f}" if card.losses else "-",
                )
                for name, card in done.items()
            ],
            indent=0,
        )
    )
    click.echo(f"written to {stages.parts.out}")


def evaluate_graph_language(file: Path, report: Path | None, *, as_json: bool) -> None:
    """Trains what is not trained; then the table of all methods on the same rows."""
    stages = _stages(file)
    from berth.predictor.evaluation.latency.language import HEADER, evaluate  # noqa: PLC0415
    from berth.predictor.evaluation.latency.language_rivals import cheap  # noqa: PLC0415

    found = evaluate(stages, cheap)
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        (report / "graph-language.json").write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
        return
    click.echo(f"Language model: {found.language_model}.")
    click.echo(f"Split: {found.split}.")
    for group, results in found.groups().items():
        click.echo(f"\n{group}")
        click.echo(columns(HEADER, [result.cells() for result in results]))
    click.echo("\nA text that is no number counts as an error of 100 %.")
