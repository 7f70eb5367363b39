"""timm's measured runs as what a graph network learns from."""

from __future__ import annotations

from functools import cache

import numpy as np
from torch_geometric.data import Data

from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.timm_devices import DEVICES
from lab.latency.timm_runs import Runs, scalars
from lab.published.graph_networks.graph_data import data_of, with_runs
from lab.published.graph_networks.latency_network import TARGETS
from lab.published.graph_networks.node_features import compact, static_features

SETTINGS = ("log batch", "log image", "torch", "cuda", "compiled", "channels last")
COLUMNS = (
    *SETTINGS, *(f"device {name}" for name in DEVICES),
    *(f"precision {name}" for name in ("fp32", "amp", "amp_bf16", "bf16")),
)  # fmt: skip
"""The names of ``columns``."""


@cache
def compacted() -> tuple[tuple[Data, ...], Floats]:
    """Return all of timm's graphs, and [graphs, static features]; made once in a process (1 s)."""
    read = timm_runs.graphs().graphs
    return (
        tuple(data_of(compact(graph)) for graph in read),
        np.array([static_features(graph) for graph in read], np.float64),
    )


def examples(rows: Runs) -> list[Data]:
    """Return the graphs with these runs, labelled by their latency alone.

    Raises ValueError for a row without a graph.
    """
    if not rows.has_graph.all():
        raise ValueError("every row must have a graph")
    graphs, statics = compacted()
    labels = np.full((len(rows), len(TARGETS)), np.nan)
    labels[:, 0] = np.log(rows.seconds)
    return with_runs(graphs, rows.graph, statics=statics, columns=columns(rows), labels=labels)


def columns(rows: Runs) -> Floats:
    """Return [rows, len(COLUMNS)] the setting of a run, the logarithm of its batch first."""
    found = scalars(rows)
    batch = np.log(rows.batch).astype(np.float64)
    return np.column_stack((batch, np.delete(found, 1, axis=1)))
