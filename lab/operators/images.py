"""Image models of timm on three GPUs, as the sum of their operators: no row of timm is fitted.

Half precision (``amp``, ``bf16``) by the peaks of the matrix units and halved bytes. Compiled rows
are summed with vector operators fused, the others as the graph has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.predictor.families.graph.operators.calls import Floats
from berth.predictor.families.graph.operators.predictor import OperatorModel
from berth.predictor.hardware.gpus import find
from berth.predictor.hardware.roofs import Numbers
from lab.latency.timm_runs import Runs, graphs, runs

GPUS = ("3090", "5090", "pro6000maxq")
NUMBERS = {"fp32": Numbers.FP32, "amp": Numbers.FP16, "amp_bf16": Numbers.BF16,
           "bf16": Numbers.BF16}  # fmt: skip


@dataclass(frozen=True)
class Images:
    """Rows with the sum of their operators, seconds of one image."""

    rows: Runs
    seconds: Floats


def summed(model: OperatorModel) -> Images:
    """Every inference row of a GPU that has a graph. Raises ToolMissing, DocumentError."""
    rows = runs()
    rows = rows[rows.has_graph & np.isin(rows.device, GPUS)]
    settings = list(zip(
        rows.device.tolist(), rows.precision.tolist(), rows.graph.tolist(), rows.batch.tolist(),
        rows.compiled.tolist(), strict=True,
    ))  # fmt: skip
    known = {one: seconds_of(model, one) for one in dict.fromkeys(settings)}
    return Images(rows, np.array([known[one] for one in settings]))


def seconds_of(model: OperatorModel, setting: tuple[str, str, int, int, bool]) -> float:
    device, precision, graph, batch, compiled = setting
    found = model.graph_seconds(
        graphs().graphs[graph], [find(device)], NUMBERS[precision], batch, compiled=compiled
    )
    return float(found[0]) / batch
