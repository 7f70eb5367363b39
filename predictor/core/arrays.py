"""Array types, reading and writing of arrays in bundles, and the Matern kernel."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import DocumentError

Floats: TypeAlias = NDArray[np.float64]
"""Array of 64-bit floats."""


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
