"""Predict the time of one batch of a model graph from measured models, operators and rooflines."""

from __future__ import annotations

from berth.predictor.core.family import FamilyEntry, load_from

_HERE = "berth.predictor.families.graph"
FAMILY = FamilyEntry(
    "graph",
    ("model-graph",),
    load_from(f"{_HERE}.graph_family", "GraphFamily"),
    bundle_readers={
        "berth.model-latency/1": f"{_HERE}.latency.bundle",
        "berth.operators-bundle/1": f"{_HERE}.operators.bundle",
        "berth.model-transfer/1": f"{_HERE}.transfer.bundle",
    },
)
