"""What the commands read: kernel profiles with published times, and figures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from berth.pilot.errors import DocumentError, ToolMissing
from berth.plugin.cli.training_input import require_training
from berth.predictor.learning.programs.columns import read_profiles
from lab.datasets.rajaperf import rows
from lab.kernels.examples import PROFILES, Example, join


def require_networks(needed_for: str) -> None:
    """Raises ToolMissing where PyTorch or another training library is not installed."""
    require_training(needed_for)
    if importlib.util.find_spec("torch") is None:
        raise ToolMissing("torch", needed_for=needed_for, hint="pip install 'berth[deep]'")


def read_examples(profiles: Path | None) -> tuple[Example, ...]:
    """Kernel profiles (default: the committed campaign) joined with the published times."""
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
