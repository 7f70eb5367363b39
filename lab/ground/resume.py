"""Cache of results of long steps in a folder, so that an interrupted run resumes where it
stopped."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.documents import write_bytes
from berth.predictor.core.arrays import Floats
from lab.relative.family import TimesLearner


@dataclass(frozen=True, slots=True)
class Resume:
    """Results stored by a key that names all their inputs; without a folder nothing is stored.

    A file that cannot be read (for example after an interrupted write) is computed again.
    """

    folder: Path | None = None

    def array(self, key: str, make: Callable[[], Floats]) -> Floats:
        """Return the array stored under ``key``; if there is none, compute it by ``make()`` and
        store it."""
        path = self._path(key, "npy")
        if path is None:
            return make()
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        except (OSError, ValueError, EOFError):
            array = make()
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        write_bytes(path, stream.getvalue())
        return array

    def value(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON value stored under ``key``; if there is none, compute it by ``make()``
        and store it.

        Tuples come back as lists.
        """
        path = self._path(key, "json")
        if path is None:
            return make()
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            value = make()
        write_bytes(path, json.dumps(value).encode())
        return value

    def _path(self, key: str, kind: str) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.{kind}"


def resume_key(family: TimesLearner) -> tuple[str, str, str]:
    """Return name, settings and kinds of platforms of a family, as part of a key of ``Resume``."""
    kinds = dict(getattr(family, "kinds", {}))
    return family.name, family.what, json.dumps(kinds, sort_keys=True)
