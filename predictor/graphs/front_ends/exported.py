"""What the front ends share: an ONNX file is read, a failed export is one sentence."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType

from berth.pilot.errors import DocumentError, ToolMissing
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.reader import check_sizes, shared


def framework(name: str, *, what: str, extra: str) -> ModuleType:
    """Import a framework's module. Raises ToolMissing that names how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ToolMissing(
            f"the Python library {name}", needed_for=what, hint=f"pip install {extra}"
        ) from None


def read_exported(
    data: bytes, *, source: str, batch: int | None, sizes: Mapping[str, int] | None
) -> ModelGraph:
    """Read the graph of an ONNX file in memory, as any file is read."""
    check_sizes(source, batch, sizes)
    handle = os.memfd_create("exported")
    try:
        with open(handle, "wb", closefd=False) as stream:
            stream.write(data)
        return shared().read_open(handle, source=source, batch=batch, sizes=sizes)
    finally:
        os.close(handle)


def failed(source: str, framework_name: str, error: Exception) -> DocumentError:
    """Return an exporter's failure as one sentence: the first line that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = (lines[0] if lines else type(error).__name__)[:200]
    return DocumentError(source, f"could not be exported by {framework_name}: {reason}")
