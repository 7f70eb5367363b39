"""Results of finished parts in a folder, so that an interrupted gate resumes.

The key of a result is a digest of the part's name, its seed, its module and everything that
``sources`` covers: a result of other code is never read.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from lab.gate.figure import Model, Part


class Result(Model):
    """The figures of one part."""

    key: str
    part: str
    values: dict[str, float | None]
    """Figure -> value; None: not a number."""
    seconds: float = Field(ge=0)
    """Of one core."""


@dataclass(frozen=True, slots=True)
class Results:
    """The folder of results of one state of the sources."""

    folder: Path
    sources: str
    """Digest of the sources."""

    def key(self, part: Part) -> str:
        """Return names all that the figures of ``part`` depend on."""
        text = f"{part.name} {part.module} {part.seed} {self.sources}"
        return hashlib.sha256(text.encode()).hexdigest()

    def path(self, part: Part) -> Path:
        """Return the file of a result; another one for other sources."""
        return self.folder / f"{part.name}-{self.key(part)[:16]}.json"

    def work(self, part: Part) -> Path:
        """Return a folder for unfinished work of ``part``, by the same key."""
        return self.folder / f"{part.name}-{self.key(part)[:16]}.work"

    def read(self, part: Part) -> Result | None:
        """Return the finished result; None where there is none, or a file that cannot be read."""
        try:
            found = Result.model_validate_json(self.path(part).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.key == self.key(part) else None

    def write(self, part: Part, values: Mapping[str, float], seconds: float) -> None:
        """Keep a finished part; the file is complete or absent."""
        shown = {name: value if math.isfinite(value) else None for name, value in values.items()}
        result = Result(key=self.key(part), part=part.name, values=shown, seconds=seconds)
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.path(part).with_suffix(f".{os.getpid()}")
        unfinished.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.path(part))
