"""A trained GraphSAGE network in numpy: what a model graph takes in given settings.

The same sums as ``training/latency/networks`` (DIPPM: the thesis, chapter 4), without PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.predictor.families.graph.latency.node_features import (
    LOG_WORK,
    RATES,
    CompactGraph,
    Floats32,
)

_EPSILON = 1e-5
_LEAST, _MOST = -60.0, 20.0


@dataclass(frozen=True, slots=True)
class GraphNetwork:
    """Weights by PyTorch's names."""

    weights: Mapping[str, Floats32]
    layers: int

    @classmethod
    def of(cls, weights: Mapping[str, Floats32]) -> GraphNetwork:
        """Raises ValueError where a weight is missing or has another shape than its neighbours'."""
        layers = sum(name.endswith(".own.weight") for name in weights)
        made = cls(dict(weights), layers)
        row = np.zeros(1, np.float32)
        try:
            nodes, statics, columns = (
                len(weights[f"{name}.mean"]) for name in ("nodes", "statics", "columns")
            )
            edges, times = np.zeros((2, 1), np.int32), row + 1
            one = CompactGraph(np.zeros((1, nodes), np.float32), row + 1, edges, times, layers)
            made.logarithms(one, np.zeros(statics), np.zeros((1, columns)))
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"no weights of a graph network: {error}") from None
        return made

    def logarithms(
        self, graph: CompactGraph, statics: NDArray[Any], columns: NDArray[Any]
    ) -> NDArray[np.float64]:
        """[runs, targets] of one graph; ``statics`` [...], ``columns`` [runs, ...]."""
        rows = self._encoded(graph)
        whole = graph.count @ rows / max(float(graph.count.sum()), 1.0)
        settings = self._standard("columns", columns)
        fixed = np.concatenate((whole, self._standard("statics", statics)))
        joined = np.concatenate(
            (np.broadcast_to(fixed, (len(settings), len(fixed))), settings), axis=1
        )
        found = self._perceptron("head", joined).astype(np.float64)
        if "rates.of_node.weight" in self.weights:
            seconds = self._summed(graph, rows, settings, columns)
            found[:, 0] = np.log(np.maximum(seconds, 1e-30))
        return found + self.weights["mean"]

    def _encoded(self, graph: CompactGraph) -> Floats32:
        rows = self._standard("nodes", graph.features)
        source, target = graph.edges
        share = graph.times / np.bincount(target, graph.times, len(rows))[target]
        order = np.argsort(target, kind="stable")
        source, weight = source[order], share[order, None].astype(np.float32)
        reached, first = np.unique(target[order], return_index=True)
        for n in range(self.layers):
            sent = self._linear(f"encoder.layers.{n}.others", rows)
            made = self._linear(f"encoder.layers.{n}.own", rows)
            if len(first):
                made[reached] += np.add.reduceat(sent[source] * weight, first)
            rows = np.maximum(self._normalised(n, made), 0)
        return rows

    def _summed(
        self, graph: CompactGraph, rows: Floats32, settings: Floats32, columns: NDArray[Any]
    ) -> NDArray[np.float64]:
        """[runs] seconds: the nodes' own (``networks.network.Rates``)."""
        rates = len(RATES)
        node = self._linear("rates.of_node", rows)
        run = self._perceptron("rates.of_run", settings)
        rank = node.shape[1] // rates - 1
        node_own, run_own = node[:, :rates].copy(), run[:, :rates].copy()
        node_own[:, : len(LOG_WORK)] += graph.features[:, LOG_WORK]
        run_own[:, -1] -= columns[:, 0]
        node_many = node[:, rates:].reshape(-1, rates, rank)
        run_many = run[:, rates:].reshape(-1, rates, rank)
        total = np.zeros(len(run))
        for n in range(rates):
            log_s = run_many[:, n] @ node_many[:, n].T
            log_s *= 1 / math.sqrt(rank)
            log_s += run_own[:, n, None] + node_own[:, n]
            total += np.exp(np.clip(log_s, _LEAST, _MOST)) @ graph.count
        return total

    def _standard(self, name: str, given: NDArray[Any]) -> Floats32:
        low, high, mean, scale = (
            self.weights[f"{name}.{part}"] for part in ("low", "high", "mean", "scale")
        )
        present = np.where(np.isnan(given), mean, given.astype(np.float32))
        found: Floats32 = (np.clip(present, low, high) - mean) * scale
        return found

    def _linear(self, name: str, rows: Floats32) -> Floats32:
        made: Floats32 = rows @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return made if bias is None else made + bias

    def _perceptron(self, name: str, rows: Floats32) -> Floats32:
        place = 0
        while f"{name}.{place}.weight" in self.weights:
            rows = self._linear(f"{name}.{place}", np.maximum(rows, 0) if place else rows)
            place += 2  # a ReLU stands between each two
        return rows

    def _normalised(self, layer: int, rows: Floats32) -> Floats32:
        centred = rows - rows.mean(axis=1, keepdims=True)
        scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + _EPSILON)
        name = f"encoder.norms.{layer}"
        found: Floats32 = centred * scale * self.weights[f"{name}.weight"]
        return found + self.weights[f"{name}.bias"]
