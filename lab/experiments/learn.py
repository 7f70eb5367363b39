"""What every ``train(options)`` does: a progress bar, the command for the manifest, figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from berth.pilot.errors import DocumentError
from berth.plugin.cli.output.step_bar import Advance, step_bar
from berth.plugin.cli.train.training_input import command_line
from lab.experiments.options import Options

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


def learn(options: Options, train: Learns[M_co], steps: int) -> M_co:
    """The manifest of what ``train`` wrote, with a bar of so many ``steps``."""
    figures = read_figures(options.figures)
    with step_bar("training", steps) as advance:
        return train(
            options.bundle,
            seed=options.seed,
            command=command_line(),
            figures=figures,
            advance=advance,
        )


def read_figures(path: Path | None) -> dict[str, float]:
    """The shipped method's figures from the JSON of ``--report``; of no file none.

    Raises DocumentError where it is no evaluation.
    """
    if path is None:
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in data["shipped"].items()}
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DocumentError(
            path, "is not an evaluation", hint="`python -m lab NAME --report DIR` writes one"
        ) from None
