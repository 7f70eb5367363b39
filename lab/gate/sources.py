"""A digest of all code and data that a figure can depend on."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import berth.pilot
import berth.predictor
import lab

LIBRARIES = (
    "numpy", "onnx", "onnxmltools", "onnxruntime", "pandas", "pyarrow", "scikit-learn", "scipy",
    "skl2onnx", "torch", "torch-geometric", "xgboost-cpu",
)  # fmt: skip
_NO_SOURCE = {".md", ".pyc"}
_OWN = Path(__file__).parent


def folders() -> list[Path]:
    """Return the packages that figures depend on: what serves, what trains, what evaluates."""
    return [Path(next(iter(room.__path__))) for room in (berth.pilot, berth.predictor, lab)]


def files(folder: Path) -> list[Path]:
    """Return every source and data file (bundles, tables), without the gate's own modules.

    Those beside this file say what is run and judged; ``parts/`` computes and is included.
    """
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix not in _NO_SOURCE
        and path.parent != _OWN
        and not any(
            part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts
        )
    )


def digest_of(rooms: Iterable[Path]) -> str:
    """Return a digest of names and contents, the versions of libraries and of Python; data sets are
    named by checksum in the sources."""
    found = hashlib.sha256(sys.version.encode())
    for library in LIBRARIES:
        found.update(f"{library} {_version(library)}\n".encode())
    for room in rooms:
        for path in files(room):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{room.name}/{path.relative_to(room)} {content}\n".encode())
    return found.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "absent"
