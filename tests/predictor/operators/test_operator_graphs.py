"""A model graph as calls: what runs nothing costs nothing, and a batch is that batch."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from small_models import attention, constant, convolutional, graph_of, model, tensor

from berth.predictor.families.graph.operators.calls import CallKind, calls_of
from berth.predictor.families.graph.operators.predictor import (
    graph_times,
    operator_model,
)
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import unit_named, units

L4 = unit_named("l4-24gb")


def network(batch: int, channels: int = 64) -> ModelGraph:
    """Convolutions of 64 channels on 56x56."""
    made = convolutional(blocks=3, channels=channels)
    made.graph.input[0].CopyFrom(tensor("x", "N", 3, 56, 56))
    return graph_of(made, batch=batch)


def one_convolution(*, groups: int, kernel: int, stride: int = 1) -> ModelGraph:
    """A single convolution of 64 channels."""
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], group=groups, strides=[stride] * 2,
        pads=[kernel // 2] * 4,
    )  # fmt: skip
    weights = constant("w", 64, 64 // groups, kernel, kernel)
    return graph_of(model([node], [weights], [tensor("x", "N", 64, 28, 28)]), batch=2)


def runs_of(graph: ModelGraph) -> list[bool]:
    """Whether each node of a graph runs a kernel of its own."""
    runs: list[bool] = calls_of(graph, Numbers.FP32).runs[graph.kind].tolist()
    return runs


def test_views_and_shapes_run_nothing() -> None:
    graph = network(8)
    free = np.isin(graph.family, [FAMILIES.index(OpFamily.VIEW), FAMILIES.index(OpFamily.SHAPE)])
    assert runs_of(graph) == (~free).tolist()


@pytest.mark.parametrize(
    "make", [network, lambda batch: graph_of(attention(), batch, {"sequence": 64})]
)
def test_a_batch_is_the_graph_at_that_batch(make: object) -> None:
    assert callable(make)
    small, large = make(1), make(32)
    scaled = operator_model().graph_seconds(small, list(units({}).values()), batch=32)
    exact = operator_model().graph_seconds(large, list(units({}).values()))
    assert scaled == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("groups", "kernel", "stride", "kind"),
    [
        (1, 3, 1, CallKind.CONVOLUTION),
        (1, 3, 2, CallKind.LINEAR),
        (1, 1, 1, CallKind.LINEAR),
        (1, 7, 1, CallKind.LINEAR),
        (4, 3, 1, CallKind.PRODUCT),
        (64, 3, 1, CallKind.UNARY),
    ],
)
def test_convolutions_become_what_was_measured_alike(
    groups: int, kernel: int, stride: int, kind: CallKind
) -> None:
    graph = one_convolution(groups=groups, kernel=kernel, stride=stride)
    calls = calls_of(graph, Numbers.FP32).calls
    assert calls.kind.tolist() == [int(kind)]
    assert calls.flops[0] == graph.total_flops
    assert calls.moved_bytes[0] == graph.total_moved_bytes
    if kind is not CallKind.UNARY:
        size = calls.groups * calls.rows * calls.columns * calls.inner
        assert size[0] == graph.total_macs


def test_attention_has_products_of_each_head() -> None:
    graph = graph_of(attention(width=64, heads=4), 2, {"sequence": 32})
    found = calls_of(graph, Numbers.FP32)
    products = found.calls[found.calls.kind == CallKind.PRODUCT]
    assert set(products.groups.tolist()) == {2 * 4.0}
    work = 2 * (products.groups * products.rows * products.columns * products.inner)
    assert work == pytest.approx(products.flops)
    assert np.flatnonzero(found.calls.kind == CallKind.SOFTMAX).size == 1


def test_a_bias_after_a_product_is_part_of_it() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    constants = [constant("w", 32, 32), constant("b", 32)]
    graph = graph_of(model(nodes, constants, [tensor("x", "N", 16, 32)]), batch=2)
    assert runs_of(graph) == [True, False]


def test_a_compiler_saves_kernels_and_never_costs() -> None:
    graph = network(8)
    eager, compiled = (
        operator_model().graph_seconds(graph, list(units({}).values()), compiled=on)
        for on in (False, True)
    )
    assert (compiled < eager).all()


def test_half_precision_halves_the_bytes() -> None:
    graph = network(8)
    runs = calls_of(graph, Numbers.FP32).runs
    full, half = (calls_of(graph, numbers).calls[runs] for numbers in (Numbers.FP32, Numbers.FP16))
    assert half.moved_bytes == pytest.approx(full.moved_bytes / 2)
    assert (half.flops == full.flops).all()


def test_an_unknown_operator_is_its_bytes() -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], domain="com.nobody")
    graph = graph_of(model([node]), batch=4)
    assert graph.unknown
    assert operator_model().graph_seconds(graph, [L4])[0] > 0


def test_gpu_platforms_have_a_time_with_its_interval_and_cpus_none() -> None:
    known = platforms.shipped()
    found = graph_times(network(8), list(known), known)
    assert set(found) == {name for name, platform in known.items() if platform.is_gpu}
    for interval in found.values():
        assert 0 < interval.low < interval.mid < interval.high
    assert found["a100-mig-1g.5gb"].mid > found["a100-40gb"].mid
    assert graph_times(network(8), ["quartz", "no-such"], known) == {}


def test_convolutions_and_other_precisions_are_told_with_their_own_width() -> None:
    model_ = operator_model()
    constants = model_.loaded.constants
    text, image = graph_of(attention(), 1, {"sequence": 8}), network(1)
    told = {
        model_.graph_interval(graph, 1.0, numbers).high
        for graph, numbers in ((image, Numbers.FP32), (image, Numbers.FP16), (text, Numbers.FP16))
    }
    assert told == {constants.half.high}
    assert model_.graph_interval(text, 1.0).high == constants.model.high
