"""The arrays of a bundle, read without pickle and no larger than they may be."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.errors import DocumentError


def read_arrays(path: Path, most_bytes: int) -> dict[str, Any]:
    """All arrays of an ``.npz``, by name. Raises DocumentError."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if sum(one.file_size for one in stored.zip.infolist()) > most_bytes:
                raise DocumentError(path, f"holds more than {most_bytes} bytes")
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DocumentError(path, f"is not a file of arrays: {error}") from None
