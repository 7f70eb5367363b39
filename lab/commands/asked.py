"""What the command line asked of a task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of ``berth train`` and ``berth evaluate``; those of the other are left as is."""

    task: str
    profiles: tuple[Path, ...]
    reference: str | None
    seed: int
    folder: Path | None
    """Of a site's own platform files."""
    seeds: range = range(0)
    groups: tuple[str, ...] = ()
    jobs: int = 1
    report: Path | None = None
    as_json: bool = False
    out: Path | None = None
    figures: Path | None = None
    adapt: Path | None = None
    platform: str | None = None

    @property
    def bundle(self) -> Path:
        """Folder of the new bundle. Raises UsageError where none was named."""
        if self.out is None:
            raise UsageError("name the folder of the new bundle: --out FOLDER")
        return self.out

    @property
    def folds(self) -> Path | None:
        """Where an evaluation keeps the folds that are done, to go on from when it is cut short."""
        return None if self.report is None else self.report / "folds"
