"""``berth train|evaluate --task graph-language CONFIG``: GNN + language model from one file."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.errors import UsageError
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import Advance, step_bar
from lab.commands.asked import Asked
from lab.commands.inputs import require_networks
from lab.commands.shown import show

if TYPE_CHECKING:
    from lab.published.graph_language.stages import Stages


def train(asked: Asked) -> None:
    """All stages that are not done; prints what each ended with."""
    stages = _stages(_one_config(asked))
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


def evaluate(asked: Asked) -> None:
    """Trains what is not trained; then the table of all methods on the same rows."""
    stages = _stages(_one_config(asked))
    from lab.published.graph_language.baselines import cheap  # noqa: PLC0415
    from lab.published.graph_language.evaluate import HEADER  # noqa: PLC0415
    from lab.published.graph_language.evaluate import evaluate as run  # noqa: PLC0415

    found = run(stages, cheap)
    told = [f"Language model: {found.language_model}.", f"Split: {found.split}."]
    for group, results in found.groups().items():
        told += [f"\n{group}", columns(HEADER, [result.cells() for result in results])]
    told.append("\nA text that is no number counts as an error of 100 %.")
    show(asked, found.as_dict(), "\n".join(told), file="graph-language.json")


def _one_config(asked: Asked) -> Path:
    """The only argument. Raises UsageError where there is none or more, or a folder is named."""
    if asked.out is not None:
        raise UsageError(f"--task {asked.task} takes no --out: its configuration names the folder")
    if len(asked.profiles) != 1:
        raise UsageError(
            f"--task {asked.task} takes one configuration file", hint="see docs/graph-language.md"
        )
    return asked.profiles[0]


def _stages(file: Path) -> Stages:
    require_networks("GNN + language model")
    from lab.published.graph_language.pretrained import (  # noqa: PLC0415
        require_language,
    )

    require_language("GNN + language model")
    from lab.published.graph_language.config import read_config  # noqa: PLC0415
    from lab.published.graph_language.corpus import published  # noqa: PLC0415
    from lab.published.graph_language.parts import Parts  # noqa: PLC0415
    from lab.published.graph_language.stages import Stages  # noqa: PLC0415

    config = read_config(file)
    parts = Parts(config, file.parent, published(config))
    if config.language_model.path is not None:
        _ = parts.checkpoint  # a folder that is none is named before hours of training

    def progress(what: str, total: int) -> AbstractContextManager[Advance]:
        return step_bar(what, total)

    return Stages(parts, progress)
