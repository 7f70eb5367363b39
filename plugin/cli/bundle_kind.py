"""Whose bundle a folder holds, by the schema that its manifest names."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

from berth.predictor.core.bundle import MANIFEST

KERNELS, RELATIVE = "berth.bundle", "berth.relative-bundle"
LATENCY, TRANSFER = "berth.model-latency", "berth.model-transfer"
OPERATORS, STEPS = "berth.operators-bundle", "berth.dl-training-bundle"
_ROOMS = {
    KERNELS: "program.bundle",
    RELATIVE: "relative.bundle",
    LATENCY: "graph.latency.bundle",
    TRANSFER: "graph.latency.transfer.bundle",
    OPERATORS: "graph.operators.bundle",
    STEPS: "training_step.bundle",
    "berth.graph-network": "graph.latency.graph_network_bundle",
    "berth.llm-bundle": "language_model.bundle",
    "berth.slices-bundle": "slices.bundle",
}


def kind_of(folder: Path) -> str:
    """The schema without its version; ``KERNELS`` where nothing tells."""
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return KERNELS
    schema = str(data.get("schema")) if isinstance(data, dict) else ""
    kind = schema.partition("/")[0]
    return kind if kind in _ROOMS else KERNELS


def reader_of(folder: Path) -> ModuleType:
    """The module whose ``verify`` and ``load`` read the folder, and check everything else."""
    return import_module(f"berth.predictor.families.{_ROOMS[kind_of(folder)]}")
