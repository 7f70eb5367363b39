"""Training steps on several GPUs of a node, each with a copy of the model."""

from __future__ import annotations

from lab.gate.part import Work
from lab.steps.data_parallel import coverage, mean_error, measured_steps


def figures(work: Work) -> dict[str, float]:
    """Return mean errors and coverage; each model or device left out."""
    rows, _ = measured_steps()
    work.advance()
    return {
        "training.model": mean_error(rows, lambda one: one.model),
        "training.device": mean_error(rows, lambda one: one.device),
        "training.device.coverage": coverage(rows, lambda one: one.device),
    }
