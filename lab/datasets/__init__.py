"""Public measurements that Berth trains and evaluates on; never part of the distribution.

``$BERTH_DATASETS`` names the folder (default: ``../shared/datasets`` beside the working tree).
Each data set says where it is from, under which licence, and which file it is by checksum.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import DocumentError, ToolMissing

FOLDER_VARIABLE = "BERTH_DATASETS"


@dataclass(frozen=True, slots=True)
class DataSet:
    """One file of public measurements."""

    path: str
    """Inside the folder."""
    title: str
    source: str
    licence: str
    sha256: str


def folder() -> Path:
    """Return the folder of data sets; it may be absent."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path(__file__).parents[2].parent / "shared" / "datasets"


def locate(data: DataSet) -> Path:
    """Return the file of ``data``. Raises ToolMissing (absent) or DocumentError (another file)."""
    path = folder() / data.path
    if not path.is_file():
        raise ToolMissing(
            f"the data set {data.path}",
            needed_for=data.title,
            hint=f"get it from {data.source} and name its folder by {FOLDER_VARIABLE}",
        )
    if hashlib.sha256(path.read_bytes()).hexdigest() != data.sha256:
        raise DocumentError(path, "is not the file that Berth knows (its checksum differs)")
    return path
