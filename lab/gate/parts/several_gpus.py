"""Copies of a model on several GPUs of a node, in inference and in training."""

from __future__ import annotations

from lab.datasets.mlperf import rates
from lab.gate.part import Work
from lab.latency.several_gpus import held_out_errors, pairs
from lab.steps.data_parallel import coverage, mean_error, measured_steps


def figures(work: Work) -> dict[str, float]:
    """Return mean errors and coverage; each model, device or accelerator left out."""
    rows, _ = measured_steps()
    found = held_out_errors(pairs(rates()))
    work.advance()
    return {
        "training.model": mean_error(rows, lambda one: one.model),
        "training.device": mean_error(rows, lambda one: one.device),
        "training.device.coverage": coverage(rows, lambda one: one.device),
        "inference.error": found.mean_error,
        "inference.coverage": found.coverage,
    }
