"""What a prediction costs: graph networks in PyTorch, ONNX and numpy, and trees; one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnxruntime
import torch

from berth.predictor.families.graph.latency.features import graph_features, work_of
from berth.predictor.families.graph.latency.graph_network import GraphNetwork
from berth.predictor.families.graph.latency.node_features import (
    CompactGraph,
    Floats32,
    compact,
    static_features,
)
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.graphs.graph import ModelGraph
from lab.latency import timm_runs as data
from lab.latency.timm_runs import Runs
from lab.published.graph_networks.evaluate import trees_of
from lab.published.graph_networks.examples import examples
from lab.published.graph_networks.export import (
    onnx_inputs,
    run_onnx,
    to_arrays,
    to_onnx,
)
from lab.published.graph_networks.fit import Training, fit
from lab.published.graph_networks.network import Readout, Shape
from lab.published.graph_networks.priors import tree_features
from lab.published.relative_networks.seeded import seeded

HEADER = ("prediction of one graph", "ms, 1 setting", "ms, 25 settings")
SETTINGS = (1, 25)
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds, the median over graphs of the fastest repeat, by number of settings."""

    what: str
    ms: tuple[float, ...]

    def cells(self) -> tuple[str, ...]:
        """Of the table, as ``HEADER`` says."""
        return (self.what, *(f"{one:.2f}" for one in self.ms))


def speed(rows: Runs, *, graphs: int = 40, seed: int = 0) -> tuple[Cost, ...]:
    """Features and answers of some graphs; what the weights are does not matter.

    Trees are XGBoost's own; their features are those of the graph (roofs apart).
    """
    rows = rows[rows.has_graph]
    known = np.unique(rows.graph)
    chosen = np.random.default_rng(seed).permutation(known)[:graphs].tolist()
    some = rows[np.isin(rows.graph, chosen)]
    ready = examples(some)
    made = fit(ready, Shape(readout=Readout.SUM), Training(epochs=1), seed=seed)
    table = tree_features(some)
    trees = trees_of(seed).fit(table, np.log(some.seconds))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        to_onnx(made), options, providers=["CPUExecutionProvider"]
    )
    plain = GraphNetwork.of(to_arrays(made))
    network = made.network.eval()

    def in_torch(graph: int, runs: Floats) -> None:
        given = onnx_inputs(ready.graphs[graph], ready.statics[graph], runs)
        with torch.no_grad():
            network.one_graph(*(torch.from_numpy(one) for one in given.values()))

    first = {graph: int(np.flatnonzero(some.graph == graph)[0]) for graph in chosen}
    models = data.graphs().graphs
    answers: dict[str, Callable[[int, Floats], object]] = {
        "network's features": lambda g, _: features(replace(models[g])),
        "network, PyTorch": in_torch,
        "network, ONNX": lambda g, r: run_onnx(session, ready.graphs[g], ready.statics[g], r),
        "network, numpy": lambda g, r: plain.logarithms(ready.graphs[g], ready.statics[g], r),
        "trees' features": lambda g, _: graph_features(work_of(replace(models[g]))),
        "trees": lambda g, r: trees.predict(np.repeat(table[first[g], None], len(r), axis=0)),
    }
    with seeded(seed):
        return tuple(
            Cost(what, tuple(
                float(np.median([
                    _fastest(answer, graph, np.repeat(ready.columns[first[graph], None], n, axis=0))
                    for graph in chosen
                ])) for n in SETTINGS
            ))
            for what, answer in answers.items()
        )  # fmt: skip


def features(graph: ModelGraph) -> tuple[CompactGraph, Floats32]:
    """All that a network sees of a graph."""
    return compact(graph), static_features(graph)


def _fastest(answer: Callable[[int, Floats], object], graph: int, runs: Floats) -> float:
    spent = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        answer(graph, runs)
        spent.append(time.perf_counter() - start)
    return 1e3 * min(spent)
