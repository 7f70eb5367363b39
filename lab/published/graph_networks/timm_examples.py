"""Measured runs as what a graph network learns from: timm's, and our own on one CPU core."""

from __future__ import annotations

from functools import cache

import numpy as np
from torch_geometric.data import Data

from berth.pilot.dl.document import ModelRun, Task
from lab.ground.table import Floats
from lab.latency import own_runs, timm_runs
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


def examples(rows: Runs, labels: Floats | None = None) -> list[Data]:
    """Graphs with these runs; ``labels`` [rows, len(TARGETS)], by default the latency alone.

    Raises ValueError for a row without a graph.
    """
    if not rows.has_graph.all():
        raise ValueError("every row must have a graph")
    graphs, statics = compacted()
    if labels is None:
        labels = np.full((len(rows), len(TARGETS)), np.nan)
        labels[:, 0] = np.log(rows.seconds)
    return with_runs(graphs, rows.graph, statics=statics, columns=columns(rows), labels=labels)


def columns(rows: Runs) -> Floats:
    """Return [rows, len(COLUMNS)] the setting of a run, the logarithm of its batch first."""
    found = scalars(rows, with_totals=False)
    batch = np.log(rows.batch).astype(np.float64)
    return np.column_stack((batch, np.delete(found, 1, axis=1)))


def own_labels() -> tuple[Runs, Floats]:
    """onnxruntime's inference on one core, and [rows, len(TARGETS)]: they alone know memory (the
    host's peak, less what the process held before the model); nobody measured energy."""
    of = own_runs.runs_where(
        lambda run: run.setting.task is Task.INFERENCE and run.setting.framework == "onnxruntime"
    )
    rows = own_runs.as_rows(of)
    rest = np.array([_memory_and_energy(run) for run in of]).reshape(len(of), 2)
    return rows, np.column_stack((np.log(rows.seconds), rest))


def _memory_and_energy(run: ModelRun) -> tuple[float, float]:
    names = ("host_before_bytes", "host_run_peak_bytes", "energy_j")
    found = (run.measurements.get(name) for name in names)
    before, peak, joules = (
        np.nan if one is None or one.value is None else float(one.value) for one in found
    )
    return (
        np.log(peak - before) if peak > before else np.nan,
        np.log(joules / run.setting.batch) if joules > 0 else np.nan,
    )
