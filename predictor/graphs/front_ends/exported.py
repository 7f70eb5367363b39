"""Functions that all front ends use: import a framework, read its export, report its failure."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

from berth.pilot.errors import DocumentError, ToolMissing
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import check_sizes, shared


def framework(name: str, *, what: str, extra: str) -> ModuleType:
    """Return a framework's imported module. Raises ToolMissing, which says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ToolMissing(
            f"the Python library {name}", needed_for=what, hint=f"pip install {extra}"
        ) from None


def read_exported(
    data: bytes, *, source: str, batch: int | None, sizes: Mapping[str, int] | None
) -> ModelGraph:
    check_sizes(source, batch, sizes)
    handle = os.memfd_create("exported")
    try:
        with open(handle, "wb", closefd=False) as stream:
            stream.write(data)
        return shared().read_open(handle, source=source, batch=batch, sizes=sizes)
    finally:
        os.close(handle)


def failed(source: str, framework_name: str, error: Exception) -> DocumentError:
    """Return a DocumentError with the first line of an exporter's error message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = (lines[0] if lines else type(error).__name__)[:200]
    return DocumentError(source, f"could not be exported by {framework_name}: {reason}")
