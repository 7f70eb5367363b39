"""Training graph networks on runs of small models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")

from small_models import convolutional, graph_of
from torch_geometric.data import Data

from berth.pilot.errors import BerthError
from lab.ground.table import Floats
from lab.published.graph_networks.fit_network import Training, answers, fit
from lab.published.graph_networks.graph_data import data_of, with_runs
from lab.published.graph_networks.latency_network import (
    EncoderSettings,
    Network,
    Shape,
)
from lab.published.graph_networks.node_features import (
    CompactGraph,
    compact,
    static_features,
)

SHORT = Training(epochs=3, graphs=2)
COLUMNS = 2
LATENCY, MEMORY, ENERGY = range(3)


def shape() -> Shape:
    return Shape(EncoderSettings(width=16), hidden=16)


def small(blocks: int, channels: int = 8) -> CompactGraph:
    return compact(graph_of(convolutional(blocks, channels), batch=1))


@dataclass(frozen=True)
class Examples:
    """Runs of graphs."""

    graphs: tuple[CompactGraph, ...]
    statics: Floats
    graph: np.ndarray
    columns: Floats
    labels: Floats

    def data(self) -> list[Data]:
        return with_runs(
            [data_of(graph) for graph in self.graphs], self.graph, statics=self.statics,
            columns=self.columns, labels=self.labels,
        )  # fmt: skip

    def only(self, runs: np.ndarray) -> Examples:
        columns = (self.graph[runs], self.columns[runs], self.labels[runs])
        return Examples(self.graphs, self.statics, *columns)


def trained(of: Examples, shape: Shape, training: Training = SHORT, seed: int = 0) -> Network:
    return fit(of.data(), shape, training, seed=seed)[0]


def predict(network: Network, of: Examples) -> Floats:
    return answers(network, of.data())


@pytest.fixture(scope="module")
def examples() -> Examples:
    """Eight models at four batches; latency and memory grow with size, energy is not known."""
    sizes = [(blocks, channels) for blocks in (1, 2, 3, 5) for channels in (8, 32)]
    graphs = [graph_of(convolutional(*size), batch=1) for size in sizes]
    graph = np.repeat(np.arange(len(graphs)), 4)
    batch = np.log(np.tile([1.0, 2.0, 8.0, 32.0], len(graphs)))
    macs = np.log([g.total_macs for g in graphs])[graph]
    labels = np.full((len(graph), 3), np.nan)
    labels[:, LATENCY], labels[:, MEMORY] = macs - 30, macs + batch
    labels[::3, MEMORY] = np.nan
    columns = np.column_stack((batch, np.tile([0.0, 1.0], len(graph) // 2)))
    return Examples(
        tuple(compact(g) for g in graphs),
        np.array([static_features(g) for g in graphs], np.float64), graph, columns, labels,
    )  # fmt: skip


def test_training_learns(examples: Examples) -> None:
    training = Training(epochs=60, graphs=4, learning_rate=1e-2)
    network, losses = fit(examples.data(), shape(), training)
    assert losses[-1] < losses[0] / 3
    off = predict(network, examples)[:, LATENCY] - examples.labels[:, LATENCY]
    assert np.median(np.abs(off)) < 0.3


def test_the_same_seed_gives_the_same_network(examples: Examples) -> None:
    one, same, other = (
        predict(trained(examples, shape(), seed=seed), examples) for seed in (3, 3, 4)
    )
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


def test_a_label_that_is_missing_changes_nothing_by_its_place(examples: Examples) -> None:
    without = replace(examples, labels=examples.labels.copy())
    without.labels[:, MEMORY] = np.nan
    latency_alone = trained(without, shape())
    assert np.isfinite(predict(latency_alone, examples)).all()
    assert latency_alone.mean[MEMORY] == 0
    assert trained(examples, shape()).mean[MEMORY] > 0


def test_nothing_to_learn_is_said(examples: Examples) -> None:
    empty = replace(examples, labels=np.full_like(examples.labels, np.nan))
    with pytest.raises(BerthError, match="no run has a label"):
        trained(empty, shape())


def test_labels_are_not_looked_at_when_predicting(examples: Examples) -> None:
    made = trained(examples, shape())
    blind = replace(examples, labels=np.full_like(examples.labels, np.nan))
    assert np.array_equal(predict(made, examples), predict(made, blind))


def test_runs_may_stand_in_any_order(examples: Examples) -> None:
    made = trained(examples, shape())
    order = np.random.default_rng(0).permutation(len(examples.graph))
    found = predict(made, examples.only(order))
    assert np.allclose(found, predict(made, examples)[order], atol=1e-5)
