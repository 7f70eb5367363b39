"""What ``berth train`` and ``berth evaluate`` share: their input, and the missing extra named."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from berth.pilot.errors import DocumentError, ToolMissing

if TYPE_CHECKING:
    from berth.predictor.training.kernels.examples import Example


def require_training(needed_for: str) -> None:
    """Raises ToolMissing where the training libraries are not installed."""
    for module in ("xgboost", "sklearn", "pandas", "onnxmltools"):
        if importlib.util.find_spec(module) is None:
            raise ToolMissing(module, needed_for=needed_for, hint="pip install 'berth[train]'")


def require_networks(needed_for: str) -> None:
    """Raises ToolMissing where PyTorch or another training library is not installed."""
    require_training(needed_for)
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing("torch", needed_for=needed_for, hint="pip install 'berth[deep]'")


def command_line() -> str:
    """What was typed, for the manifest."""
    return " ".join(["berth", *sys.argv[1:]])


def read_examples(profiles: Path | None) -> tuple[Example, ...]:
    """Kernel profiles (default: the committed campaign) joined with the published times."""
    from berth.predictor.datasets.rajaperf import rows  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kernels.examples import PROFILES, join, read_profiles  # noqa: PLC0415

    return join(read_profiles(PROFILES if profiles is None else profiles), rows())


def read_figures(path: Path | None) -> dict[str, float]:
    """The shipped method's figures from ``evaluation.json``; of no file none.

    Raises DocumentError where it is no evaluation.
    """
    if path is None:
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): float(value) for key, value in data["shipped"].items()}
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DocumentError(
            path, "is not an evaluation", hint="`berth evaluate --report DIR` writes one"
        ) from None
