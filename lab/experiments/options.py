"""What the command line asked of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
    only: tuple[str, ...] = ()
    """Methods or parts; none: the usual ones."""
    jobs: int = 1
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
