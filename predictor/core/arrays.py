"""Array types, reading and writing of arrays in bundles, and the Matern kernel."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import DocumentError

Floats: TypeAlias = NDArray[np.float64]
"""Array of 64-bit floats."""
Row = tuple[float, ...]
"""One row of a JSON array."""


def array_of(values: Sequence[object], shape: tuple[int, ...], path: Path, key: str) -> Floats:
    """Return ``values`` (numbers or nested sequences; None becomes NaN) as an array of ``shape``.

    Raises DocumentError naming ``key`` of ``path`` where the values have another shape.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except ValueError:
        raise DocumentError(path, "has rows of different lengths", key=key) from None
    if array.shape != shape:
        raise DocumentError(path, f"has shape {array.shape} where {shape} is needed", key=key)
    return array


def row_of(values: Floats) -> Any:
    """Return an array in its JSON form: nested tuples, with None for values that are not finite."""
    if values.ndim > 1:
        return tuple(row_of(row) for row in values)
    return tuple(float(v) if math.isfinite(v) else None for v in values)


def array_file(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of a compressed ``.npz`` file of arrays by name, for ``read_arrays``; the
    same arrays give the same bytes."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def read_arrays(path: Path, most_bytes: int) -> dict[str, Any]:
    """Return all arrays of an ``.npz`` file by name.

    Raises DocumentError where the file cannot be read or unpacks to more than ``most_bytes``.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            if sum(member.file_size for member in stored.zip.infolist()) > most_bytes:
                raise DocumentError(path, f"holds more than {most_bytes} bytes")
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DocumentError(path, f"is not a file of arrays: {error}") from None


def matern32(apart: Floats) -> Floats:
    """Return the Matern 3/2 kernel of distances in length scales; 1 at distance 0.

    Source: Rasmussen and Williams, equation 4.17.
    """
    far = np.sqrt(3.0) * apart
    return np.asarray((1 + far) * np.exp(-far))
