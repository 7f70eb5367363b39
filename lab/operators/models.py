"""Whole language models as the sum of their operators, on silicon that nothing was fitted on.

The operators come from Berth's own graphs (Hugging Face configurations); see
``training.operators.transformers``. Left out of all tables: Switch Transformers (no static graph)
and several GPUs together (no model of their links). Compiled models (``fusion``) are told apart:
their vector operators are fused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.graph.operators.calls import Floats
from berth.predictor.hardware.gpus import KERNEL_S, find
from lab.datasets import neusight
from lab.datasets.neusight import WholeModel
from lab.operators.data import chip_of
from lab.operators.fit import Fitted
from lab.operators.transformers import (
    CONFIGURATIONS,
    Operators,
    backward,
    forward,
)

FUSION = "fusion"


@dataclass(frozen=True)
class Summed:
    """Whole models with the sum of their operators. [n] each."""

    rows: tuple[WholeModel, ...]
    seconds: Floats

    @property
    def errors(self) -> Floats:
        """[n] |predicted / measured - 1|"""
        measured = np.array([row.seconds for row in self.rows])
        return np.asarray(np.abs(self.seconds / measured - 1))


def usable() -> tuple[WholeModel, ...]:
    """Rows of models with a static graph on one GPU."""
    return tuple(
        row
        for row in neusight.whole_models()
        if row.model in CONFIGURATIONS and row.option in ("", FUSION)
    )


def summed(
    fitted: Callable[[str], Fitted], advance: Callable[[str], None] = lambda _: None
) -> Summed:
    """Every usable row by the model that ``fitted`` gives for its silicon."""
    rows = usable()
    found = np.zeros(len(rows))
    for n, row in enumerate(rows):
        gpu = find(row.device).name
        given = forward(row.model, row.batch, row.sequence, compiled=row.option == FUSION)
        model = fitted(chip_of(gpu))
        found[n] = seconds_of(model, given, gpu)
        if row.training:
            found[n] += seconds_of(model, backward(given), gpu)
        advance(row.model)
    return Summed(rows, found)


def seconds_of(model: Fitted, given: Operators, gpu: str) -> float:
    """All operators one after the other, queued."""
    return float((KERNEL_S + model.work(given.calls, gpu)) @ given.times)
