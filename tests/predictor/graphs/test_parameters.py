"""Parameters as a framework counts them, from what exporters leave in the file."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper
from small_models import constant, graph_of, integers, model, tensor


def parameters(nodes, constants, **more) -> int:
    return graph_of(model(nodes, constants, **more)).parameters


def conv(*inputs: str, out: str = "y") -> list:
    return [helper.make_node("Conv", ["x", *inputs], [out])]


def test_running_statistics_do_not_count() -> None:
    node = helper.make_node("BatchNormalization", ["x", "s", "o", "m", "v"], ["y"])
    assert parameters([node], [constant(name, 3) for name in "somv"]) == 2 * 3


def test_a_folded_batch_normalisation_counts_again_by_the_names_exporters_give() -> None:
    weight, bias = constant("w", 4, 3, 1, 1), constant("onnx::Conv_12", 4)
    assert parameters(conv("w"), [weight]) == 12
    assert parameters(conv("w", out="getitem_3"), [weight]) == 12 + 2 * 4
    assert parameters(conv("w", "onnx::Conv_12"), [weight, bias]) == 12 + 2 * 4
    own = constant("stem.bias", 4)
    assert parameters(conv("w", "stem.bias"), [weight, own]) == 12 + 4


def test_tied_matrices_count_once_and_equal_vectors_at_each_use() -> None:
    ids = helper.make_tensor_value_info("ids", 7, ["N", 5])
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("LayerNormalization", ["e", "g", "b"], ["n"]),
        helper.make_node("LayerNormalization", ["n", "g", "b"], ["m"]),
        helper.make_node("Transpose", ["table"], ["t"]),
        helper.make_node("MatMul", ["m", "t"], ["y"]),
    ]
    constants = [constant("table", 100, 8), constant("g", 8), constant("b", 8)]
    assert parameters(nodes, constants, inputs=[ids]) == 800 + 2 * 2 * 8


def test_masks_position_biases_and_sine_tables_do_not_count() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "sines"], ["r"]),
        helper.make_node("Add", ["r", "mask"], ["s"]),
        helper.make_node("Unsqueeze", ["s", "axis"], ["u"]),
        helper.make_node("Softmax", ["u"], ["p"]),
        helper.make_node("Add", ["p", "place"], ["y"]),
    ]
    constants = [
        constant("sines", 8, 8), constant("mask", 8, 8), integers("axis", 0),
        constant("place", 8, 8),
    ]  # fmt: skip
    assert parameters(nodes, constants) == 64


def test_scales_of_channels_count_and_single_numbers_do_not() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "gamma"], ["a"]),
        helper.make_node("Mul", ["a", "half"], ["y"]),
    ]
    half = numpy_helper.from_array(np.float32(0.5), "half")
    assert parameters(nodes, [constant("gamma", 3, 1, 1), half]) == 3


def test_weights_made_ready_at_loading_count_once() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["w", "axes"], ["mean"]),
        helper.make_node("Sub", ["w", "mean"], ["c"]),
        helper.make_node("Conv", ["x", "c"], ["y"]),
    ]
    assert parameters(nodes, [constant("w", 4, 3, 1, 1), integers("axes", 1)]) == 12


def test_quantised_weights_count_as_numbers_not_bytes() -> None:
    x = tensor("x", "N", 64)
    packed = numpy_helper.from_array(np.zeros((16, 2, 16), np.uint8), "w")
    nodes = [
        helper.make_node(
            "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=16, bits=4,
            block_size=32,
        )
    ]  # fmt: skip
    graph = graph_of(model(nodes, [packed, constant("s", 32)], inputs=[x]))
    assert graph.parameters == 64 * 16
    assert graph.stored_bytes == 16 * 2 * 16 + 4 * 32
