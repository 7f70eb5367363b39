"""The kinds of graph network, on compact graphs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")

import torch
from small_models import attention, convolutional, graph_of
from torch_geometric.data import Batch

from berth.predictor.graphs.graph import ModelGraph
from lab.published.graph_networks.graph_data import data_of
from lab.published.graph_networks.latency_network import Encoder, EncoderSettings, Kind, mean_nodes
from lab.published.graph_networks.node_features import (
    CompactGraph,
    compact,
    kind_features,
)

KINDS = list(Kind)


@pytest.fixture
def graph() -> ModelGraph:
    return graph_of(attention(layers=24), batch=1, sizes={"sequence": 8})


def encoder(kind: Kind, layers: int = 3) -> Encoder:
    torch.manual_seed(0)
    return Encoder(EncoderSettings(kind=kind, width=16, layers=layers)).eval()


def together(graphs: list[CompactGraph]) -> Batch:
    return Batch.from_data_list([data_of(graph) for graph in graphs])


def embedded(made: Encoder, batch: Batch) -> object:
    with torch.no_grad():
        return mean_nodes(made(batch.x, batch.edge_index), batch)


def node_by_node(graph: ModelGraph) -> CompactGraph:
    """The same graph with a row for each node."""
    viewed = compact(graph, steps=len(graph))
    assert len(viewed) < len(graph)
    kept = [n for n in range(len(graph)) if graph.operators[graph.operator[n]] != "Reshape"]
    place = {node: n for n, node in enumerate(kept)}
    maker = {int(t): int(s) for s, t in graph.edges.T if int(t) not in place}
    pairs = [(maker.get(int(s), int(s)), int(t)) for s, t in graph.edges.T if int(t) in place]
    there = np.array([(place[s], place[t]) for s, t in pairs if s in place]).T
    both = np.concatenate((there, there[::-1]), axis=1).astype(np.int32)
    return CompactGraph(
        kind_features(graph)[graph.kind[kept]], np.ones(len(kept), np.float32), both,
        np.ones(both.shape[1], np.float32), len(graph),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_sharing_rows_changes_nothing(graph: ModelGraph, kind: Kind) -> None:
    whole, few = together([node_by_node(graph)]), together([compact(graph)])
    assert len(few.count) < len(whole.count) / 2
    made = encoder(kind)
    assert torch.allclose(embedded(made, whole), embedded(made, few), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_nodes_does_not_matter(graph: ModelGraph, kind: Kind) -> None:
    made = compact(graph)
    order = np.random.default_rng(1).permutation(len(made))
    where = np.argsort(order).astype(np.int32)
    shuffled = CompactGraph(
        made.features[order], made.count[order], where[made.edges], made.times, made.steps
    )
    net = encoder(kind)
    one, other = (embedded(net, together([some])) for some in (made, shuffled))
    assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_is_the_same_alone_and_among_others(graph: ModelGraph, kind: Kind) -> None:
    first, second = compact(graph), compact(graph_of(convolutional(), batch=1))
    net = encoder(kind)
    among = embedded(net, together([first, second, first]))
    assert among.shape == (3, 16)
    assert torch.allclose(among[1], embedded(net, together([second]))[0], atol=1e-5)
    assert torch.allclose(among[0], among[2], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_edges_matter(graph: ModelGraph, kind: Kind) -> None:
    made = compact(graph)
    cut = CompactGraph(made.features, made.count, made.edges[:, :0], made.times[:0], made.steps)
    net = encoder(kind)
    one, other = (embedded(net, together([some])) for some in (made, cut))
    assert not torch.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_width_and_layers_are_free(graph: ModelGraph, layers: int) -> None:
    whole, few = together([node_by_node(graph)]), together([compact(graph, steps=layers)])
    net = encoder(Kind.GIN, layers)
    assert torch.allclose(embedded(net, whole), embedded(net, few), atol=1e-5)
