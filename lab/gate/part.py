"""What a module of ``parts/`` is given: its seed, a folder for unfinished work, progress."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 15.0
"""Progress is printed at most so often."""


@dataclass(slots=True)
class Work:
    """One run of one part."""

    part: str
    seed: int
    folder: Path
    """For unfinished work: it belongs to the present sources and seed alone."""
    steps: int = 0
    _began: float = field(default_factory=time.monotonic)
    _said: float = 0.0

    def advance(self, *_: object) -> None:
        """One step is done; whatever an evaluation says of it is ignored."""
        self.steps += 1
        now = time.monotonic()
        if now - self._said >= EVERY_S:
            self._said = now
            print(f"  {self.part}: step {self.steps}, {now - self._began:.0f} s", file=sys.stderr)
