"""GNN + language model from one file."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from berth.pilot.errors import UsageError
from berth.plugin.cli.output.step_bar import Advance, step_bar
from berth.plugin.report.terminal import columns
from lab.experiments.options import Options
from lab.experiments.shown import show_report

if TYPE_CHECKING:
    from lab.published.graph_language.stages import Stages


def train(options: Options) -> str:
    """All stages that are not done; says what each ended with."""
    stages = _stages(options)
    rows = [
        (
            name,
            str(card.steps),
            f"{card.losses[0]:.4f}" if card.losses else "-",
            f"{card.losses[-1]:.4f}" if card.losses else "-",
        )
        for name, card in stages.all().items()
    ]
    header = ("stage", "steps", "loss of the first epoch", "of the last")
    return f"{columns(header, rows, indent=0)}\nwritten to {stages.parts.out}"


def evaluate(options: Options) -> None:
    """Trains what is not trained; then the table of all methods on the same rows."""
    stages = _stages(options)
    from lab.published.graph_language.cheap_baselines import cheap  # noqa: PLC0415
    from lab.published.graph_language.evaluate_language import evaluate as run  # noqa: PLC0415

    show_report(options, run(stages, cheap), "graph-language")


def _stages(options: Options) -> Stages:
    """Raises UsageError where no configuration is given."""
    from lab.published.graph_language.corpus import published  # noqa: PLC0415
    from lab.published.graph_language.language_config import read_config  # noqa: PLC0415
    from lab.published.graph_language.stages import Parts, Stages  # noqa: PLC0415

    file = options.config
    if file is None:
        raise UsageError("name a configuration file", hint="see docs/graph-language.md")
    config = read_config(file)
    parts = Parts(config, file.parent, published(config))
    if config.language_model.path is not None:
        _ = parts.checkpoint  # a folder that is none is named before hours of training

    def progress(what: str, total: int) -> AbstractContextManager[Advance]:
        return step_bar(what, total)

    return Stages(parts, progress)
