"""Whole models as the sum of their operators, on GPUs that nothing was fitted on.

Language models of NeuSight: the operators come from Berth's own graphs (Hugging Face
configurations, ``transformer_operators``). Left out: Switch Transformers (no static graph) and
several GPUs together (no model of their links). Compiled models have their vector operators fused.

Image models of timm on three GPUs, no row of timm fitted. Half precision (``amp``, ``bf16``) by the
peaks of the matrix units and halved bytes; compiled rows with vector operators fused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.graph.operators.physics import KERNEL_S
from berth.predictor.families.graph.operators.predictor import OperatorModel
from berth.predictor.hardware.unit import unit_named
from lab.datasets import neusight
from lab.datasets.neusight import WholeModel
from lab.ground.table import Floats, Strings, Table
from lab.latency.timm_devices import GPUS, NUMBERS
from lab.latency.timm_runs import graphs, runs
from lab.operators.fit_operators import Fitted
from lab.operators.operator_rows import chip_of
from lab.operators.transformer_operators import CONFIGURATIONS, Operators, backward, forward

FUSION = "fusion"
COMPILED = "compiled"


@dataclass(frozen=True)
class Predicted(Table):
    """[n] seconds by GPU and by part: a class of operators, a mode, a setting."""

    gpu: Strings
    part: Strings
    measured: Floats
    predicted: Floats


def usable() -> tuple[WholeModel, ...]:
    """Return rows of models with a static graph on one GPU."""
    return tuple(
        row
        for row in neusight.whole_models()
        if row.model in CONFIGURATIONS and row.option in ("", FUSION)
    )


def language_models(fitted: Callable[[str], Fitted]) -> Predicted:
    """Return every usable row by the model that ``fitted`` gives for its silicon."""
    rows = usable()
    gpus, found = [unit_named(row.device).name for row in rows], np.zeros(len(rows))
    for n, (row, gpu) in enumerate(zip(rows, gpus, strict=True)):
        given = forward(row.model, row.batch, row.sequence, compiled=row.option == FUSION)
        model = fitted(chip_of(gpu))
        found[n] = seconds_of(model, given, gpu)
        if row.training:
            found[n] += seconds_of(model, backward(given), gpu)
    part = [COMPILED if row.option else "training" if row.training else "inference" for row in rows]
    seconds = np.array([row.seconds for row in rows])
    return Predicted(np.array(gpus), np.array(part), seconds, found)


def seconds_of(model: Fitted, given: Operators, gpu: str) -> float:
    """Return the seconds of all operators run one after the other."""
    return float((KERNEL_S + model.work(given.calls, gpu)) @ given.times)


def image_models(model: OperatorModel) -> Predicted:
    """Return every inference row of a GPU that has a graph; seconds of one image.

    Raises ToolMissing, DocumentError.
    """
    rows = runs()
    rows = rows[rows.has_graph & np.isin(rows.device, GPUS)]
    columns = (rows.device, rows.precision, rows.graph, rows.batch, rows.compiled)
    settings = list(zip(*(one.tolist() for one in columns), strict=True))
    known = {one: image_seconds(model, one) for one in dict.fromkeys(settings)}
    part = [
        f"{precision} {layout}" + (f" {COMPILED}" if compiled else "")
        for (_, precision, _, _, compiled), layout in zip(
            settings, rows.layout.tolist(), strict=True
        )
    ]
    found = np.array([known[one] for one in settings])
    return Predicted(rows.device, np.array(part), rows.seconds, found)


def image_seconds(model: OperatorModel, setting: tuple[str, str, int, int, bool]) -> float:
    """Return seconds of one image; ``setting``: device, precision, graph, batch, compiled."""
    device, precision, graph, batch, compiled = setting
    found = model.graph_seconds(
        graphs().graphs[graph], [unit_named(device)], NUMBERS[precision], batch, compiled=compiled
    )
    return float(found[0]) / batch
