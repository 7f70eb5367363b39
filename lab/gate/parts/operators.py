"""Single operators on GPUs never seen, and whole language models as their sum."""

from __future__ import annotations

from berth.pilot.errors import BerthError
from lab.gate.part import Work
from lab.operators.evaluate_operators import (
    IMAGES,
    LEFT_OUT,
    MODELS,
    OURS,
    operators_report,
)

PLAIN = "inference and training"
SHOWN = {
    "left-out-l4": (LEFT_OUT, "l4-24gb: all"),
    "left-out-a100": (LEFT_OUT, "a100-pcie-80gb: all"),
    "left-out-t4": (LEFT_OUT, "t4-16gb: all"),
    "left-out-mi100": (LEFT_OUT, "mi100-32gb: all"),
    "models-l4": (MODELS, f"l4-24gb: {PLAIN}"),
    "models-a100-40": (MODELS, f"a100-pcie-40gb: {PLAIN}"),
    "models-a100-80": (MODELS, f"a100-pcie-80gb: {PLAIN}"),
    "models-v100": (MODELS, f"v100-pcie-32gb: {PLAIN}"),
    "models-t4": (MODELS, f"t4-16gb: {PLAIN}"),
    "models-mi100": (MODELS, f"mi100-32gb: {PLAIN}"),
    "images-3090": (IMAGES, "3090: all"),
    "images-5090": (IMAGES, "5090: all"),
    "images-pro6000": (IMAGES, "pro6000maxq: all"),
}


def figures(work: Work) -> dict[str, float]:
    """Return mean errors. Raises BerthError where a data set is missing."""
    found = operators_report(work.seed, work.advance)
    for section, missing in found.data["skipped"].items():
        raise BerthError(f"{section}: {missing}")
    ours = {
        (one.split, one.rows_of): one.figures for one in found.data["results"] if one.family == OURS
    }
    return {f"{name}.mean": ours[key].mean_error for name, key in SHOWN.items()}
