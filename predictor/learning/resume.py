"""Results of long steps, kept in a folder so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.predictor.families.program.ceilings import Floats


@dataclass(frozen=True, slots=True)
class Kept:
    """Arrays by a key that must name everything they depend on; no folder: nothing is kept."""

    folder: Path | None = None

    def array(self, key: str, make: Callable[[], Floats]) -> Floats:
        """What was kept under ``key``, else ``make()``, which is then kept.

        A file that cannot be read (a write cut short) is made anew.
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        except (OSError, ValueError, EOFError):
            found = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as stream:
            np.save(stream, found, allow_pickle=False)
        unfinished.replace(path)
        return found
