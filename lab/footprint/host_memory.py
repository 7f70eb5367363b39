"""Peak host memory of our own CPU runs, leave-one-model-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.footprint.footprint import MemoryTask, memory_of
from berth.predictor.footprint.runtimes import FrameworkMemory
from lab.footprint.fit_memory import fit_host, left_out_ratios
from lab.footprint.memory_labels import Hosted, hosted


@dataclass(frozen=True, slots=True)
class HostFigures:
    """Errors ``|predicted / measured - 1|`` of one framework and task."""

    framework: str
    task: str
    rows: int
    models: int
    median_error: float
    mean_error: float
    worst_error: float
    inside: float
    """Share of models' rows within the 95 % interval; models weigh alike."""


def host_figures(rows: Sequence[Hosted] | None = None) -> list[HostFigures]:
    """onnxruntime's inference, PyTorch's inference and training."""
    rows = list(hosted()) if rows is None else rows
    groups = (
        ("onnxruntime", MemoryTask.INFERENCE),
        ("torch", MemoryTask.INFERENCE),
        ("torch", MemoryTask.TRAINING),
    )
    return [
        _figures(framework, task, part)
        for framework, task in groups
        if (part := [r for r in rows if r.framework == framework and r.need.task is task])
    ]


def _figures(framework: str, task: MemoryTask, rows: list[Hosted]) -> HostFigures:
    ratios = left_out_ratios(rows)
    off = np.abs(1 / np.concatenate(list(ratios.values())) - 1)
    inside = []
    for name in ratios:
        memory = fit_host([row for row in rows if row.model != name])
        runtime = FrameworkMemory(
            memory=memory, framework="", source="", labels=1, models=1, limits=""
        )
        own = [(row, memory_of(row.need, runtime)) for row in rows if row.model == name]
        inside.append(np.mean([m.low <= row.peak_bytes <= m.high for row, m in own]))
    return HostFigures(
        framework, task.value, len(rows), len(ratios), float(np.median(off)), float(off.mean()),
        float(off.max()), float(np.mean(inside)),
    )  # fmt: skip
