"""Model graphs as numbers for graph networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper
from small_models import attention, constant, convolutional, graph_of, model

from lab.published.graph_networks.node_features import (
    NODE_FEATURES,
    OPERATORS,
    STATIC_FEATURES,
    compact,
    kind_features,
    static_features,
)


def chain(*operators: str) -> object:
    names = ["x", *(f"t{n}" for n in range(len(operators)))]
    nodes = [
        helper.make_node(operator, [names[n]], [names[n + 1]])
        for n, operator in enumerate(operators)
    ]
    return graph_of(model(nodes), batch=1)


def test_shapes_are_as_named() -> None:
    graph = graph_of(convolutional(), batch=1)
    made = compact(graph)
    assert made.features.shape == (len(made), len(NODE_FEATURES))
    assert made.features.dtype == np.float32
    assert np.isfinite(made.features).all()
    assert made.edges.max() < len(made)
    assert static_features(graph).shape == (len(STATIC_FEATURES),)


def test_every_node_but_views_is_counted_once() -> None:
    graph = graph_of(convolutional(blocks=9), batch=1)
    made = compact(graph)
    assert made.count.sum() == len(graph) - graph.count("Flatten")
    assert len(made) < made.count.sum()


def test_repeated_blocks_cost_nothing() -> None:
    few, many = (len(compact(graph_of(attention(layers=n), batch=1, sizes={"sequence": 8})))
                 for n in (12, 80))  # fmt: skip
    assert few == many


def test_what_reads_a_view_reads_what_it_shows() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"])]
    plain = [*nodes, helper.make_node("Tanh", ["a"], ["y"])]
    viewed = [
        *nodes,
        helper.make_node("Unsqueeze", ["a", "axes"], ["b"]),
        helper.make_node("Squeeze", ["b", "axes"], ["c"]),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    axes = helper.make_tensor("axes", 7, [1], [0])
    one, other = (compact(graph_of(model(some, [axes]), batch=1)) for some in (plain, viewed))
    assert (len(one), one.edges.shape) == (2, (2, 2))
    for name in ("features", "count", "times"):
        assert np.array_equal(np.sort(getattr(one, name), 0), np.sort(getattr(other, name), 0))


def test_one_node_has_no_edges() -> None:
    made = compact(chain("Relu"))
    assert (len(made), made.edges.shape, made.times.shape) == (1, (2, 0), (0,))


def test_a_graph_of_views_alone_keeps_them() -> None:
    nodes = [helper.make_node("Flatten", ["x"], ["a"]), helper.make_node("Flatten", ["a"], ["y"])]
    made = compact(graph_of(model(nodes), batch=1))
    assert made.count.sum() == 2


def test_an_operator_outside_the_list_is_told_by_its_family() -> None:
    graph = chain("Softsign", "Relu")
    rows = kind_features(graph)
    strange = rows[graph.kind[0]]
    assert not strange[: len(OPERATORS)].any()
    assert strange[NODE_FEATURES.index("is activation")] == 1
    assert rows[graph.kind[1], NODE_FEATURES.index("is Relu")] == 1


def test_an_operator_that_nobody_knows_is_told_as_unknown() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="org.example")
    graph = graph_of(model([node]), batch=1)
    assert kind_features(graph)[0, NODE_FEATURES.index("is unknown")] == 1
    assert len(compact(graph)) == 1


def test_names_and_numbering_of_kinds_do_not_matter() -> None:
    graph = graph_of(convolutional(blocks=3), batch=1)
    swap = np.arange(len(graph.kinds))[::-1]
    other = replace(
        graph, kinds=graph.kinds[swap], kind_operator=graph.kind_operator[swap],
        kind=swap[graph.kind].astype(np.int32),
    )  # fmt: skip
    one, two = compact(graph), compact(other)
    order = [np.lexsort((made.count, *made.features.T)) for made in (one, two)]
    assert np.array_equal(one.features[order[0]], two.features[order[1]])
    assert np.array_equal(one.count[order[0]], two.count[order[1]])


def test_static_features_count_what_dippm_counts() -> None:
    graph = graph_of(
        model(
            [
                helper.make_node("Conv", ["x", "w"], ["a"]),
                helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("Relu", ["b"], ["y"]),
            ],
            [constant("w", 4, 3, 3, 3)],
        ),
        batch=1,
    )
    found = dict(zip(STATIC_FEATURES, np.expm1(static_features(graph)), strict=True))
    assert found["log convolutions"] == pytest.approx(1)
    assert found["log relu"] == pytest.approx(2)
    assert found["log dense"] == 0
    assert found["log macs"] == pytest.approx(6 * 6 * 4 * 27)
