"""TraPPM's two phases on tiny graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")
pytest.importorskip("pandas")

import torch
from onnx import helper
from small_models import attention, convolutional, graph_of, model
from torch_geometric.data import Batch, Data

from lab.published.graph_networks.fit_network import Training, answers
from lab.published.graph_networks.graph_data import data_of, with_runs
from lab.published.graph_networks.node_features import compact
from lab.published.trappm.auto_encoder import (
    Design,
    auto_encoder,
    link_loss,
    links,
    pairs,
    pretrain,
)
from lab.published.trappm.step_regressor import Design as RegressorDesign
from lab.published.trappm.step_regressor import fit_regressor
from lab.published.trappm.unlabelled_graphs import random_network

TINY = Design(
    width=16, dropout=0.1,
    training=Training(epochs=25, graphs=2, learning_rate=1e-2, weight_decay=0.0),
)  # fmt: skip
SMALL = RegressorDesign(
    width=16, dropout=0.0, training=Training(epochs=30, graphs=2, weight_decay=0.0)
)


def trained_for(design: Design, epochs: int) -> Design:
    return replace(design, training=replace(design.training, epochs=epochs))


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    blocks = [graph_of(convolutional(blocks=n, channels=4 * n), batch=1) for n in (1, 2, 3, 4)]
    heads = graph_of(attention(layers=3), batch=1, sizes={"sequence": 8})
    return [data_of(compact(graph, TINY.layers)) for graph in (*blocks, heads)]


@pytest.fixture(scope="module")
def one_node() -> Data:
    return data_of(compact(graph_of(model([helper.make_node("Relu", ["x"], ["y"])]), batch=1)))


def runs_of(
    graphs: list[Data], labels: np.ndarray, frozen: np.ndarray | None = None, places: object = None
) -> list[Data]:
    """One run of each graph."""
    which = np.arange(len(labels)) if places is None else np.asarray(places)
    found = with_runs(
        graphs, which, statics=np.zeros((len(graphs), 1)), columns=np.zeros((len(labels), 1)),
        labels=labels,
    )  # fmt: skip
    for one, place in zip(found, np.unique(which).tolist(), strict=True):
        given = np.zeros((1, 0)) if frozen is None else frozen[[place]]
        one.frozen = torch.from_numpy(given).float()
    return found


def test_negative_samples_are_no_edges_and_stay_in_their_graph(graphs: list[Data]) -> None:
    batch = Batch.from_data_list(graphs)
    torch.manual_seed(0)
    edges, others = pairs(batch)
    joined = set(map(tuple, batch.edge_index.T.tolist()))
    assert set(map(tuple, edges.T.tolist())) == joined, "each edge is asked for"
    assert others.shape[1] > 50
    for first, second in others.T.tolist():
        assert first != second
        assert (first, second) not in joined
        assert batch.batch[first] == batch.batch[second]


def test_a_complete_graph_has_no_negative_samples() -> None:
    two = Data(x=torch.zeros(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), count=torch.ones(2))
    assert pairs(Batch.from_data_list([two]))[1].shape == (2, 0)


def test_the_loss_falls_and_edges_are_predicted_better_than_by_a_coin(
    graphs: list[Data],
) -> None:
    frozen = pretrain(graphs, TINY, seed=0)
    assert np.mean(frozen.losses[-5:]) < np.mean(frozen.losses[:2]) - 0.1
    known = links(frozen, graphs, seed=0)
    assert known.graphs == len(graphs)
    coin = links(pretrain(graphs, trained_for(TINY, 0), seed=0), graphs, seed=0)
    assert known.loss < coin.loss - 0.2
    assert known.auc > max(0.6, coin.auc)
    assert known.ap > 0.55


def test_the_same_seed_gives_the_same_auto_encoder(graphs: list[Data]) -> None:
    short = trained_for(TINY, 3)
    first, again, other = (pretrain(graphs, short, seed=seed) for seed in (1, 1, 2))
    assert first.losses == again.losses
    assert np.array_equal(first.embeddings(graphs), again.embeddings(graphs))
    assert not np.allclose(first.embeddings(graphs), other.embeddings(graphs))


def test_frozen_means_frozen(graphs: list[Data]) -> None:
    frozen = pretrain(graphs, trained_for(TINY, 1), seed=0)
    before = {name: value.clone() for name, value in frozen.model.state_dict().items()}
    embedded = frozen.embeddings(graphs)
    assert not any(p.requires_grad for p in frozen.model.parameters())
    fit_regressor(runs_of(graphs, np.arange(5.0)[:, None], embedded), SMALL, seed=0)
    assert all(torch.equal(before[n], v) for n, v in frozen.model.state_dict().items())
    assert np.array_equal(embedded, frozen.embeddings(graphs)), "nothing is dropped at random"


def test_a_graph_of_one_node_has_no_loss_and_an_embedding(
    graphs: list[Data], one_node: Data
) -> None:
    loss = link_loss(auto_encoder(graphs, TINY), Batch.from_data_list([one_node]))
    assert loss.item() == 0
    loss.backward()
    every = [*graphs, one_node]
    frozen = pretrain(every, trained_for(TINY, 1), seed=0)
    assert np.isfinite(frozen.losses).all()
    assert frozen.embeddings([one_node]).shape == (1, TINY.width)
    data = runs_of(every, np.arange(6.0)[:, None])
    assert np.isfinite(answers(fit_regressor(data, SMALL, seed=0), data)).all()


def test_labels_that_nobody_measured_change_nothing(graphs: list[Data]) -> None:
    time = np.log(np.array([1.0, 2.0, 4.0, 8.0, 3.0]))
    memory = np.array([[1.0], [np.nan], [3.0], [np.nan], [2.0]])

    def predicted(labels: np.ndarray) -> np.ndarray:
        data = runs_of(graphs, labels)
        return answers(fit_regressor(data, SMALL, seed=0), data)

    assert np.isfinite(predicted(np.column_stack([time, np.full((5, 1), np.nan)]))).all()
    partly = predicted(np.column_stack([time, memory]))
    assert np.isfinite(partly).all()
    there = np.isfinite(memory[:, 0])
    assert np.abs(partly[there, 1] - memory[there, 0]).mean() < 0.6
    filled = predicted(np.column_stack([time, np.where(there[:, None], memory, 50.0)]))
    assert not np.allclose(filled, partly), "a label that is there does change something"


@pytest.mark.slow
def test_the_regressor_learns_and_repeats(graphs: list[Data]) -> None:
    labels = np.log(np.array([1.0, 2.0, 4.0, 8.0, 3.0]))[:, None]
    data = runs_of(graphs, labels)
    longer = replace(SMALL.training, epochs=80, learning_rate=1e-2)
    design = replace(SMALL, training=longer)
    first, again = (answers(fit_regressor(data, design, seed=3), data) for _ in range(2))
    assert np.array_equal(first, again)
    assert np.abs(first - labels).mean() < 0.5 * np.abs(labels - labels.mean()).mean()


def test_random_networks_are_drawn_by_seed_and_run() -> None:
    first, again, other = (random_network(np.random.default_rng(seed)).eval() for seed in (0, 0, 1))
    assert str(first) == str(again) != str(other)
    with torch.no_grad():
        assert first(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
