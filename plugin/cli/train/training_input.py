"""The input of ``berth train``: required packages, command line, a site's own measurements."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from berth.pilot.errors import ToolMissing


def require_training(needed_for: str) -> None:
    """Raises ToolMissing where the training libraries are not installed."""
    for module in ("xgboost", "sklearn", "pandas", "onnxmltools"):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(module, needed_for=needed_for, hint="pip install 'berth[train]'")


def command_line() -> str:
    """Return what was typed, for the manifest."""
    program = Path(sys.argv[0])
    name = "python -m lab" if program.name == "__main__.py" else program.name
    return " ".join([name, *sys.argv[1:]])
