"""Model graphs: the time of a batch from measured models, operators and rooflines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.predictor.core.family import Bundles, FamilyEntry

if TYPE_CHECKING:
    from berth.predictor.families.graph.graph_family import GraphFamily


def _load(bundles: Bundles) -> GraphFamily:
    from berth.predictor.families.graph.graph_family import GraphFamily  # noqa: PLC0415

    return GraphFamily.load(bundles)


_HERE = "berth.predictor.families.graph"
FAMILY = FamilyEntry(
    "graph",
    ("model-graph",),
    _load,
    bundle_readers={
        "berth.model-latency/1": f"{_HERE}.latency.bundle",
        "berth.operators-bundle/1": f"{_HERE}.operators.bundle",
        "berth.model-transfer/1": f"{_HERE}.transfer.bundle",
    },
)
