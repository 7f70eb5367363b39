"""The measurements of ``training.latency.data`` as what a graph network learns from."""

from __future__ import annotations

from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.graph_network_bundle import SETTINGS
from berth.predictor.families.graph.latency.node_features import (
    CompactGraph,
    compact,
    static_features,
)
from berth.predictor.families.program.ceilings import Floats
from lab.latency.timm_devices import DEVICES
from lab.latency.timm_runs import Runs, graphs, scalars
from lab.published.graph_networks.fit import Examples
from lab.published.graph_networks.network import TARGETS

COLUMNS = (
    *SETTINGS, *(f"device {name}" for name in DEVICES),
    *(f"precision {name}" for name in ("fp32", "amp", "amp_bf16", "bf16")),
)  # fmt: skip
"""The names of ``columns``."""


@cache
def compacted() -> tuple[tuple[CompactGraph, ...], Floats]:
    """All of timm's graphs, and [graphs, static features]; made once in a process (1 s)."""
    read = graphs().graphs
    return (
        tuple(compact(graph) for graph in read),
        np.array([static_features(graph) for graph in read], np.float64),
    )


def examples(rows: Runs, base: Floats | None = None) -> Examples:
    """Runs that have a graph; the label is the latency, or its ratio to ``base``.

    ``base`` [rows] is a prior's seconds of an image. Raises ValueError for a row without a graph.
    """
    if not rows.has_graph.all():
        raise ValueError("every row must have a graph")
    compacts, statics = compacted()
    labels = np.full((len(rows), len(TARGETS)), np.nan)
    labels[:, 0] = np.log(rows.seconds if base is None else rows.seconds / base)
    return Examples(compacts, statics, rows.graph, columns(rows), labels)


def columns(rows: Runs) -> Floats:
    """[rows, len(COLUMNS)] the setting of a run, the logarithm of its batch first."""
    found = scalars(rows, with_totals=False)
    batch = np.log(rows.batch).astype(np.float64)
    return np.column_stack((batch, np.delete(found, 1, axis=1)))
