"""What the tasks with data sets of their own do to train: a bar, the command line, figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from berth.plugin.cli.step_bar import Advance, step_bar
from berth.plugin.cli.training_input import command_line
from lab.commands.asked import Asked
from lab.commands.inputs import read_figures

M_co = TypeVar("M_co", covariant=True)


class Learns(Protocol[M_co]):
    """Trains, writes a bundle into ``folder`` and gives its manifest."""

    def __call__(
        self,
        folder: Path,
        /,
        *,
        seed: int,
        command: str,
        figures: Mapping[str, float],
        advance: Advance,
    ) -> M_co: ...


def learn(asked: Asked, train: Learns[M_co], steps: int) -> M_co:
    """The manifest of what ``train`` wrote, with a bar of so many ``steps``."""
    figures = read_figures(asked.figures)
    with step_bar("training", steps) as advance:
        return train(
            asked.bundle,
            seed=asked.seed,
            command=command_line(),
            figures=figures,
            advance=advance,
        )
