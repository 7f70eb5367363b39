"""Arrays in the JSON of a bundle: read with their shape checked, written as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError
from berth.predictor.families.program.ceilings import Floats

Row = tuple[float, ...]


def array_of(values: Sequence[object], shape: tuple[int, ...], path: Path, key: str) -> Floats:
    """``values`` (numbers, or sequences of them; None: NaN) in ``shape``.

    Raises DocumentError naming ``key`` of ``path`` where they have another.
    """
    try:
        found = np.array(values, dtype=np.float64)
    except ValueError:
        raise DocumentError(path, "has rows of different lengths", key=key) from None
    if found.shape != shape:
        raise DocumentError(path, f"has shape {found.shape} where {shape} is needed", key=key)
    return found


def row_of(values: Floats) -> Row:
    """A vector as JSON holds it."""
    return tuple(float(v) for v in values)
