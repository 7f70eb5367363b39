"""Training graph networks, and serving what was trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `deep`")
pytest.importorskip("onnx")

import onnxruntime
from onnx import helper
from small_models import convolutional, graph_of, model

from berth.pilot.errors import BerthError
from berth.predictor.families.graph.latency.graph_network import GraphNetwork
from berth.predictor.families.graph.latency.node_features import (
    CompactGraph,
    compact,
    static_features,
)
from berth.predictor.families.program.ceilings import Floats
from lab.published.graph_networks.encoder import EncoderSettings
from lab.published.graph_networks.export import (
    TOLERANCE,
    check_agreement,
    run_onnx,
    to_arrays,
    to_onnx,
)
from lab.published.graph_networks.fit import Examples, Fitted, Training, fit
from lab.published.graph_networks.layers import Kind
from lab.published.graph_networks.network import Readout, Shape

SHORT = Training(epochs=3, graphs=2)
COLUMNS = 2
LATENCY, MEMORY, ENERGY = range(3)


def shape(kind: Kind = Kind.SAGE, how: Readout = Readout.MEAN) -> Shape:
    return Shape(EncoderSettings(kind=kind, width=16), hidden=16, readout=how, rank=4)


def small(blocks: int, channels: int = 8) -> CompactGraph:
    return compact(graph_of(convolutional(blocks, channels), batch=1))


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


def session(fitted: Fitted) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(to_onnx(fitted), options)


def settings(runs: int) -> Floats:
    return np.random.default_rng(runs).normal(size=(runs, COLUMNS))


@pytest.mark.parametrize("how", list(Readout))
def test_training_learns(examples: Examples, how: Readout) -> None:
    made = fit(examples, shape(how=how), Training(epochs=60, graphs=4, learning_rate=1e-2))
    assert made.losses[-1] < made.losses[0] / 3
    off = made.predict(examples)[:, LATENCY] - examples.labels[:, LATENCY]
    assert np.median(np.abs(off)) < 0.3


@pytest.mark.parametrize("how", list(Readout))
def test_the_same_seed_gives_the_same_network(examples: Examples, how: Readout) -> None:
    one, same, other = (
        fit(examples, shape(how=how), SHORT, seed=seed).predict(examples) for seed in (3, 3, 4)
    )
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


def test_a_label_that_is_missing_changes_nothing_by_its_place(examples: Examples) -> None:
    without = replace(examples, labels=examples.labels.copy())
    without.labels[:, MEMORY] = np.nan
    latency_alone = fit(without, shape(), SHORT)
    assert np.isfinite(latency_alone.predict(examples)).all()
    assert latency_alone.mean[MEMORY] == 0
    assert fit(examples, shape(), SHORT).mean[MEMORY] > 0


def test_nothing_to_learn_is_said(examples: Examples) -> None:
    empty = replace(examples, labels=np.full_like(examples.labels, np.nan))
    with pytest.raises(BerthError, match="no run has a label"):
        fit(empty, shape(), SHORT)


def test_labels_are_not_looked_at_when_predicting(examples: Examples) -> None:
    made = fit(examples, shape(), SHORT)
    blind = replace(examples, labels=np.full_like(examples.labels, np.nan))
    assert np.array_equal(made.predict(examples), made.predict(blind))


def test_runs_may_stand_in_any_order(examples: Examples) -> None:
    made = fit(examples, shape(how=Readout.SUM), SHORT)
    order = np.random.default_rng(0).permutation(len(examples.graph))
    found = made.predict(examples.only(order))
    assert np.allclose(found, made.predict(examples)[order], atol=1e-5)


def test_summed_times_add_up(examples: Examples) -> None:
    """Two models side by side that do not touch take the sum of their times."""
    made = fit(examples, shape(how=Readout.SUM), SHORT)
    one, other = examples.graphs[1], examples.graphs[6]
    both = CompactGraph(
        np.concatenate((one.features, other.features)), np.concatenate((one.count, other.count)),
        np.concatenate((one.edges, other.edges + len(one)), axis=1),
        np.concatenate((one.times, other.times)), one.steps,
    )  # fmt: skip
    network = GraphNetwork.of(to_arrays(made))
    ask = settings(3)
    seconds = [
        np.exp(network.logarithms(graph, examples.statics[0], ask)[:, LATENCY])
        for graph in (one, other, both)
    ]
    assert np.allclose(seconds[0] + seconds[1], seconds[2], rtol=1e-4)


@pytest.mark.parametrize("how", list(Readout))
@pytest.mark.parametrize("kind", list(Kind))
def test_what_is_exported_says_the_same(examples: Examples, kind: Kind, how: Readout) -> None:
    made = fit(examples, shape(kind, how), SHORT)
    served = session(made)
    for graph, runs in ((small(1), 1), (small(12), 3), (small(4, 64), 40)):
        apart = check_agreement(made, served, graph, examples.statics[0], settings(runs))
        assert apart <= TOLERANCE


def test_exported_and_batched_networks_agree(examples: Examples) -> None:
    made = fit(examples, shape(how=Readout.SUM), SHORT)
    served, some = session(made), examples.only(np.flatnonzero(examples.graph == 5))
    found = run_onnx(served, examples.graphs[5], examples.statics[5], some.columns)
    assert np.allclose(found, made.predict(some), atol=TOLERANCE)


@pytest.mark.parametrize("how", list(Readout))
@pytest.mark.parametrize("operator", ["Relu", "Softsign", "Frobnicate"])
def test_one_node_of_any_operator_is_served(
    examples: Examples, operator: str, how: Readout
) -> None:
    domain = "org.example" if operator == "Frobnicate" else ""
    graph = graph_of(model([helper.make_node(operator, ["x"], ["y"], domain=domain)]), batch=1)
    made = fit(examples, shape(how=how), SHORT)
    one, statics = compact(graph), static_features(graph).astype(np.float64)
    assert check_agreement(made, session(made), one, statics, settings(2)) <= TOLERANCE
    found = GraphNetwork.of(to_arrays(made)).logarithms(one, statics, settings(2))
    assert np.isfinite(found).all()


def test_weights_that_are_none_are_refused(examples: Examples) -> None:
    arrays = to_arrays(fit(examples, shape(), SHORT))
    with pytest.raises(ValueError, match="no weights"):
        GraphNetwork.of({name: a for name, a in arrays.items() if name != "head.2.weight"})
    with pytest.raises(ValueError, match="no weights"):
        GraphNetwork.of({**arrays, "head.0.weight": arrays["head.0.weight"][:, 1:]})
    with pytest.raises(ValueError, match="no weights"):
        GraphNetwork.of({})


def test_numpy_serves_graphsage_alone(examples: Examples) -> None:
    with pytest.raises(BerthError, match="not gin"):
        to_arrays(fit(examples, shape(Kind.GIN), SHORT))
