"""TraPPM's two phases on tiny graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")
pytest.importorskip("pandas")

import torch
from onnx import helper
from small_models import attention, convolutional, graph_of, model

from berth.predictor.families.graph.latency.node_features import CompactGraph, compact
from lab.published.graph_networks.batch import together
from lab.published.relative_networks.layers import Standardise
from lab.published.trappm import regressor
from lab.published.trappm.corpus import random_network
from lab.published.trappm.fit import Inputs, Rows, fit
from lab.published.trappm.links import (
    Design,
    GraphAutoEncoder,
    edges_of,
    link_loss,
    no_edges,
)
from lab.published.trappm.pretrain import freeze, links, pretrain
from lab.steps import training_parts

TINY = Design(width=16, epochs=25, graphs=2, dropout=0.1, learning_rate=5e-3)
SMALL = regressor.Design(width=16, epochs=30, graphs=2, dropout=0.0)


@pytest.fixture(scope="module")
def graphs() -> list[CompactGraph]:
    blocks = [graph_of(convolutional(blocks=n, channels=4 * n), batch=1) for n in (1, 2, 3, 4)]
    heads = graph_of(attention(layers=3), batch=1, sizes={"sequence": 8})
    return [compact(graph, TINY.layers) for graph in (*blocks, heads)]


@pytest.fixture(scope="module")
def one_node() -> CompactGraph:
    return compact(graph_of(model([helper.make_node("Relu", ["x"], ["y"])]), batch=1))


def drawn(graphs: list[CompactGraph]) -> GraphAutoEncoder:
    rows = np.concatenate([graph.features for graph in graphs]).astype(np.float64)
    torch.manual_seed(0)
    return GraphAutoEncoder(Standardise(rows), TINY)


def test_negative_samples_are_no_edges_and_stay_in_their_graph(
    graphs: list[CompactGraph],
) -> None:
    batch = together(graphs)
    found = no_edges(batch, 500, torch.Generator().manual_seed(0))
    joined = set(zip(batch.source.tolist(), batch.target.tolist(), strict=True))
    assert found.shape[1] > 50
    for first, second in found.T.tolist():
        assert first != second
        assert (first, second) not in joined
        assert batch.owner[first] == batch.owner[second]


def test_each_edge_is_asked_for_once(graphs: list[CompactGraph]) -> None:
    batch = together(graphs)
    pairs = {tuple(sorted(pair)) for pair in zip(
        batch.source.tolist(), batch.target.tolist(), strict=True
    )}  # fmt: skip
    assert {tuple(pair) for pair in edges_of(batch).T.tolist()} == pairs


def test_a_complete_graph_has_no_negative_samples(graphs: list[CompactGraph]) -> None:
    two = replace(
        graphs[0], features=graphs[0].features[:2], count=np.ones(2, np.float32),
        edges=np.array([[0, 1], [1, 0]], np.int32), times=np.ones(2, np.float32),
    )  # fmt: skip
    assert no_edges(together([two]), 4, torch.Generator().manual_seed(0)).shape == (2, 0)


def test_the_loss_falls_and_edges_are_told_better_than_by_a_coin(
    graphs: list[CompactGraph],
) -> None:
    frozen = pretrain(graphs, replace(TINY, learning_rate=1e-2), seed=0)
    assert np.mean(frozen.losses[-5:]) < np.mean(frozen.losses[:2]) - 0.1
    known = links(frozen, graphs, seed=0)
    assert known.graphs == len(graphs)
    coin = links(pretrain(graphs, replace(TINY, epochs=0), seed=0), graphs, seed=0)
    assert known.loss < coin.loss - 0.2
    assert known.area_under_curve > max(0.6, coin.area_under_curve)
    assert known.average_precision > 0.55


def test_hidden_edges_pass_no_messages(graphs: list[CompactGraph]) -> None:
    frozen = pretrain(graphs, replace(TINY, epochs=2), seed=0)
    shown, hidden = (links(frozen, graphs, seed=0, hidden=share) for share in (0.0, 0.5))
    assert shown != hidden


def test_the_same_seed_gives_the_same_auto_encoder(graphs: list[CompactGraph]) -> None:
    short = replace(TINY, epochs=3)
    first, again, other = (pretrain(graphs, short, seed=seed) for seed in (1, 1, 2))
    assert first.losses == again.losses
    assert np.array_equal(first.embeddings(graphs), again.embeddings(graphs))
    assert not np.allclose(first.embeddings(graphs), other.embeddings(graphs))


def test_frozen_means_frozen(graphs: list[CompactGraph]) -> None:
    frozen = pretrain(graphs, replace(TINY, epochs=1), seed=0)
    before = {name: value.clone() for name, value in frozen.model.state_dict().items()}
    embedded = frozen.embeddings(graphs)
    assert not any(p.requires_grad for p in frozen.model.parameters())
    rows = Rows(np.arange(5), np.zeros((5, 1)), np.arange(5.0)[:, None])
    fit(rows, Inputs(graphs, embedded), SMALL, seed=0)
    assert all(torch.equal(before[n], v) for n, v in frozen.model.state_dict().items())
    assert np.array_equal(embedded, frozen.embeddings(graphs)), "nothing is dropped at random"


def test_a_graph_of_one_node_has_no_loss_and_an_embedding(
    graphs: list[CompactGraph], one_node: CompactGraph
) -> None:
    made = drawn(graphs)
    loss = link_loss(made, together([one_node]), torch.Generator().manual_seed(0))
    assert loss.item() == 0
    loss.backward()
    freeze(made)
    frozen = pretrain([*graphs, one_node], replace(TINY, epochs=1), seed=0)
    assert np.isfinite(frozen.losses).all()
    assert frozen.embeddings([one_node]).shape == (1, TINY.width)
    rows = Rows(np.arange(6), np.zeros((6, 1)), np.arange(6.0)[:, None])
    known = fit(rows, Inputs([*graphs, one_node], None), SMALL, seed=0)
    assert np.isfinite(known.predict(np.array([5]), np.zeros((1, 1)))).all()


def test_labels_that_nobody_measured_change_nothing(graphs: list[CompactGraph]) -> None:
    time = np.log(np.array([1.0, 2.0, 4.0, 8.0, 3.0]))
    nothing = np.full((5, 1), np.nan)
    memory = np.array([[1.0], [np.nan], [3.0], [np.nan], [2.0]])
    statics = np.arange(5.0)[:, None]
    known = Inputs(graphs, None)

    def said(labels: np.ndarray) -> np.ndarray:
        rows = Rows(np.arange(5), statics, labels)
        return fit(rows, known, SMALL, seed=0).predict(rows.graph, statics)

    never = said(np.column_stack([time, nothing]))
    assert np.isfinite(never).all()
    partly = said(np.column_stack([time, memory]))
    assert np.isfinite(partly).all()
    there = np.isfinite(memory[:, 0])
    assert np.abs(partly[there, 1] - memory[there, 0]).mean() < 0.6
    filled = said(np.column_stack([time, np.where(there[:, None], memory, 50.0)]))
    assert not np.allclose(filled, partly), "a label that is there does change something"


def test_the_regressor_learns_and_repeats(graphs: list[CompactGraph]) -> None:
    labels = np.log(np.array([1.0, 2.0, 4.0, 8.0, 3.0]))[:, None]
    statics = np.zeros((5, 1))
    rows = Rows(np.arange(5), statics, labels)
    design = replace(SMALL, epochs=80, learning_rate=1e-2)
    first, again = (
        fit(rows, Inputs(graphs, None), design, seed=3).predict(rows.graph, statics)
        for _ in range(2)
    )
    assert np.array_equal(first, again)
    assert np.abs(first - labels).mean() < 0.5 * np.abs(labels - labels.mean()).mean()


def test_weights_of_another_device_are_a_start_and_stay_as_they_were(
    graphs: list[CompactGraph],
) -> None:
    rows = Rows(np.arange(5), np.zeros((5, 1)), np.arange(5.0)[:, None])
    source = fit(rows, Inputs(graphs, None), SMALL, seed=0)
    before = source.predict(rows.graph, rows.statics)
    few = Rows(np.array([0, 3]), np.zeros((2, 1)), np.array([[1001.0], [1004.0]]))
    other = fit(few, Inputs(graphs, None), SMALL, seed=0, start=source)
    assert np.array_equal(before, source.predict(rows.graph, rows.statics))
    off = np.abs(other.predict(few.graph, few.statics) - few.labels).mean()
    assert off < 3, "a device that is slower throughout is no matter of weights"


def test_random_networks_are_drawn_by_seed_and_run() -> None:
    first, again, other = (random_network(np.random.default_rng(seed)).eval() for seed in (0, 0, 1))
    assert str(first) == str(again) != str(other)
    with torch.no_grad():
        assert first(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_kept_part_is_read_again_until_data_or_design_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make() -> float:
        made.append(1)
        return 0.5

    session = training_parts.Session(0, tmp_path)
    assert session.kept("part", make) == session.kept("part", make) == 0.5
    assert len(made) == 1
    training_parts.Session(1, tmp_path).kept("part", make)
    assert len(made) == 2, "another seed is another part"
    monkeypatch.setattr(training_parts, "_key", lambda: "another design")
    session.kept("part", make)
    assert len(made) == 3
