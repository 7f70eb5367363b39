"""What every experiment is asked, and what its ``train(options)`` does.

An experiment is a module with ``evaluate(options) -> Report``, ``train(options) -> str`` or both,
and one line in ``registry``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from berth.pilot.errors import DocumentError
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import Advance, step_bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Values of the options that an experiment takes; those that it does not take are as here."""

    seed: int = 0
    report: Path | None = None
    as_json: bool = False
    out: Path | None = None
    """``--train``: the folder of the new bundle."""
    train_only: bool = False
    """``--train`` where a configuration names the folder."""
    figures: Path | None = None
    """``--figures``: an evaluation whose figures go into the model card."""
    seeds: int = 1
    """How many, from ``seed`` up."""
    profiles: tuple[Path, ...] = ()
    reference: str | None = None
    platforms: Path | None = None
    """A folder of a site's own platform files."""
    config: Path | None = None

    @property
    def bundle(self) -> Path:
        """Folder of the new bundle; only for an experiment that is asked to train."""
        if self.out is None:
            raise AssertionError("train without --train")
        return self.out

    @property
    def every_seed(self) -> range:
        """``seeds`` of them."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def unfinished(self) -> Path | None:
        """Where finished folds are cached, so that an interrupted run resumes; None: nowhere."""
        return None if self.report is None else self.report / "folds"


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
    """Return the manifest of what ``train`` wrote, with a bar of so many ``steps``."""
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
    """Return the shipped method's figures from the JSON of ``--report``; of no file none.

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
