"""What a ModelGraph holds: nodes, edges, totals, blocks, a hash that names do not change."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import compose, helper
from small_models import (
    attention,
    constant,
    convolutional,
    graph_of,
    integers,
    model,
    tensor,
)

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.graph import MalformedGraph, decode, repeated
from berth.predictor.graphs.infer import infer


def names(graph) -> list[str]:
    return [graph.operators[n] for n in graph.operator]


def test_edges_are_those_of_the_dag_and_not_of_a_chain() -> None:
    graph = graph_of(convolutional(blocks=1))
    assert names(graph) == [
        "Conv", "Conv", "BatchNormalization", "Relu", "Add", "GlobalAveragePool", "Flatten", "Gemm",
    ]  # fmt: skip
    edges = set(map(tuple, graph.edges.T.tolist()))
    assert edges == {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5), (5, 6), (6, 7)}


def test_totals_are_the_sums_done_by_hand() -> None:
    batch, pixels = 4, 8 * 8
    graph = graph_of(convolutional(blocks=1), batch)
    stem, block, head = 8 * 27 * pixels, 8 * 72 * pixels, 80
    assert graph.total_macs == batch * (stem + block + head)
    # Batch normalisation 2, relu 1, sum 1, pooling 1 for each of 8 channels' pixels; the bias.
    assert graph.total_flops == 2 * graph.total_macs + batch * (5 * 8 * pixels + 10)
    assert graph.parameters == 8 * 27 + 8 * 72 + 2 * 8 + 80 + 10
    assert graph.stored_elements == graph.parameters + 2 * 8
    assert graph.activations == batch * (2 * 8 * pixels + 10)


def test_work_grows_with_the_batch_and_parameters_do_not() -> None:
    one, eight = graph_of(convolutional(), 1), graph_of(convolutional(), 8)
    assert eight.total_macs == 8 * one.total_macs
    assert eight.parameters == one.parameters
    assert eight.digest != one.digest
    assert (eight.batch, eight.inputs[0].shape) == (8, (8, 3, 8, 8))


def test_intensity_is_flops_a_byte_and_views_move_nothing() -> None:
    graph = graph_of(convolutional(blocks=1))
    at = names(graph).index("Relu")
    assert graph.moved_bytes[at] == 2 * 8 * 64 * 4
    assert graph.flops[at] == graph.moved_bytes[at] / 8
    flatten = names(graph).index("Flatten")
    assert graph.moved_bytes[flatten] == 0
    assert graph.output_bytes[flatten] == 8 * 4


def test_shapes_and_attributes_stand_in_fixed_places() -> None:
    graph = graph_of(convolutional(), 2)
    assert graph.input_shape[0].tolist() == [2, 3, 8, 8, 0, 0]
    assert graph.output_shape[0].tolist() == [2, 8, 8, 8, 0, 0]
    assert graph.attributes[0].tolist() == [0, 3, 3, 0, 1, 1, 1, 4, 1, 0]


def test_shapes_of_many_dimensions_merge_the_leading_ones() -> None:
    shape = (2, 3, 4, 5, 2, 2, 2)
    made = model([helper.make_node("Relu", ["x"], ["y"])], inputs=[tensor("x", *shape)])
    assert graph_of(made).output_shape[0].tolist() == [6, 4, 5, 2, 2, 2]


def test_other_open_dimensions_are_bound_by_name() -> None:
    graph = graph_of(attention(), 2, {"sequence": 5})
    assert graph.outputs[0].shape == (2, 5, 16)
    tokens = 2 * 5
    assert graph.total_macs == 2 * (4 * tokens * 16 * 16 + 2 * tokens * 5 * 16)


def test_equal_nodes_share_a_kind_and_blocks_are_recognised() -> None:
    graph = graph_of(attention(layers=5), 1, {"sequence": 5})
    assert len(graph) == 5 * 17
    assert len(graph.kinds) < 17
    assert [(b.first, b.length, b.count) for b in graph.repeated_blocks] == [(0, 17, 5)]


def test_blocks_never_overlap_and_really_repeat() -> None:
    dice = np.random.default_rng(0)
    for _ in range(50):
        sequence = np.repeat(dice.integers(0, 3, 12), 1).tolist()
        sequence = np.array(sequence * int(dice.integers(1, 4)), np.int32)
        taken = np.zeros(len(sequence), int)
        for block in repeated(sequence):
            end = block.first + block.length * block.count
            taken[block.first : end] += 1
            part = sequence[block.first : end].reshape(block.count, block.length)
            assert block.count >= 2
            assert (part == part[0]).all()
        assert taken.max(initial=0) <= 1


def test_the_hash_depends_on_neither_names_nor_the_order_in_the_file() -> None:
    made = convolutional()
    renamed = compose.add_prefix(made, "other/")
    turned = convolutional()
    nodes = list(turned.graph.node)
    del turned.graph.node[:]
    turned.graph.node.extend(reversed(nodes))
    graph = graph_of(made)
    assert graph_of(renamed).digest == graph.digest
    assert graph_of(turned).digest == graph.digest


@pytest.mark.parametrize("change", ["stride", "operator", "edge"])
def test_the_hash_changes_with_the_graph(change: str) -> None:
    made = convolutional()
    before = graph_of(made).digest
    if change == "stride":
        made.graph.node[0].attribute.append(helper.make_attribute("strides", [2, 2]))
    elif change == "operator":
        made.graph.node[3].op_type = "Tanh"
    else:
        made.graph.node[4].input[1] = "r0"
    assert graph_of(made).digest != before


def test_shape_arithmetic_and_transposed_weights_are_folded_away() -> None:
    plain = model(
        [
            helper.make_node("Reshape", ["x", "to"], ["r"]),
            helper.make_node("MatMul", ["r", "w"], ["y"]),
        ],
        [integers("to", 0, 192), constant("w", 192, 5)],
    )
    computed = model(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "zero"], ["n"]),
            helper.make_node("Unsqueeze", ["n", "axis"], ["nu"]),
            helper.make_node("Concat", ["nu", "rest"], ["to"], axis=0),
            helper.make_node("Reshape", ["x", "to"], ["r"]),
            helper.make_node("Transpose", ["wt"], ["w"]),
            helper.make_node("MatMul", ["r", "w"], ["y"]),
        ],
        [
            helper.make_tensor("zero", 7, [], [0]), integers("axis", 0), integers("rest", -1),
            constant("wt", 5, 192),
        ],
    )  # fmt: skip
    one, other = graph_of(plain, 3), graph_of(computed, 3)
    assert other.digest == one.digest
    assert other.parameters == one.parameters == 5 * 192
    assert dict(other.folded) == {
        "Shape": 1,
        "Gather": 1,
        "Unsqueeze": 1,
        "Concat": 1,
        "Transpose": 1,
    }


def test_functions_are_put_in_place_of_their_calls() -> None:
    body = [
        helper.make_node("LeakyRelu", ["a"], ["b"]),
        helper.make_node("Add", ["b", "a"], ["c"]),
    ]
    slope = body[0].attribute.add()
    slope.name, slope.ref_attr_name, slope.type = "alpha", "slope", 1
    function = helper.make_function(
        "mine", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 20)], ["slope"]
    )
    made = model(
        [
            helper.make_node("Twice", ["x"], ["h"], domain="mine", slope=0.3),
            helper.make_node("Twice", ["h"], ["y"], domain="mine", slope=0.3),
        ]
    )
    made.functions.append(function)
    graph = graph_of(made)
    assert names(graph) == ["LeakyRelu", "Add"] * 2
    assert set(map(tuple, graph.edges.T.tolist())) == {(0, 1), (1, 2), (1, 3), (2, 3)}


def test_peak_memory_is_what_lives_at_once() -> None:
    made = model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Reshape", ["a", "flat"], ["v"]),
            helper.make_node("Tanh", ["v"], ["b"]),
            helper.make_node("Exp", ["b"], ["c"]),
        ],
        [integers("flat", -1)],
    )
    graph = graph_of(made, 1)
    size = 3 * 8 * 8 * 4
    assert graph.activation_bytes == 3 * size
    assert graph.peak_activation_bytes == 2 * size


def test_nodes_of_an_operator_are_counted() -> None:
    graph = graph_of(convolutional(blocks=1))
    assert (graph.count("Conv"), graph.count("LSTM")) == (2, 0)


@pytest.mark.parametrize("at", [0, 3, 4, 40, -1, -5])
def test_bytes_that_no_reader_wrote_are_refused(at: int) -> None:
    from small_models import os

    from berth.predictor.graphs.child import encode
    from berth.predictor.graphs.onnx_file import read

    handle = os.memfd_create("model")
    os.write(handle, convolutional().SerializeToString())
    data = bytearray(encode(infer(read(handle))))
    os.close(handle)
    decode(bytes(data))
    data[at] ^= 0xFF
    with pytest.raises(MalformedGraph):
        decode(bytes(data))
    with pytest.raises(MalformedGraph):
        decode(bytes(data[:at]))


def test_a_problem_names_the_node() -> None:
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [constant("w", 7, 5)])
    with pytest.raises(Problem, match=r"node 0 \(MatMul\) multiplies matrices"):
        graph_of(made)


def test_what_does_nothing_is_left_out() -> None:
    plain = model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])])
    padded = model(
        [
            helper.make_node("Identity", ["x"], ["i"]),
            helper.make_node("Relu", ["i"], ["a"]),
            helper.make_node("Dropout", ["a"], ["d"]),
            helper.make_node("Identity", ["d"], ["e"]),
            helper.make_node("Exp", ["e"], ["y"]),
        ]
    )
    graph = graph_of(padded)
    assert graph.digest == graph_of(plain).digest
    assert graph.edges.tolist() == [[0], [1]]
    assert dict(graph.folded) == {"Identity": 2, "Dropout": 1}


def test_a_cast_to_the_type_it_has_is_left_out_and_another_is_not() -> None:
    def cast(to: int):
        return graph_of(model([helper.make_node("Relu", ["x"], ["a"]),
                               helper.make_node("Cast", ["a"], ["y"], to=to)]))  # fmt: skip

    assert names(cast(1)) == ["Relu"]
    half = cast(10)
    assert names(half) == ["Relu", "Cast"]
    assert half.dtype.tolist() == [1, 10]
    assert half.output_bytes.tolist() == [3 * 64 * 4, 3 * 64 * 2]


def branching(then: str, otherwise: str):
    """Relu, then by the number of dimensions one of two operators."""
    branches = {
        key: helper.make_graph(
            [helper.make_node(operator, ["a"], [f"{key}_out"])], key, [], [tensor(f"{key}_out")]
        )
        for key, operator in (("then_branch", then), ("else_branch", otherwise))
    }
    return model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Shape", ["a"], ["s"]),
            helper.make_node("Size", ["s"], ["rank"]),
            helper.make_node("Equal", ["rank", "four"], ["c"]),
            helper.make_node("If", ["c"], ["b"], **branches),
            helper.make_node("Exp", ["b"], ["y"]),
        ],
        [helper.make_tensor("four", 7, [], [4])],
    )


def test_a_branch_that_the_shapes_choose_is_put_in_place() -> None:
    graph = graph_of(branching("Tanh", "Neg"))
    assert names(graph) == ["Relu", "Tanh", "Exp"]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    made = branching("Tanh", "Neg")
    made.graph.initializer[0].CopyFrom(helper.make_tensor("four", 7, [], [5]))
    assert names(graph_of(made)) == ["Relu", "Neg", "Exp"]


def test_a_branch_without_its_graph_is_named() -> None:
    made = branching("Tanh", "Neg")
    del made.graph.node[4].attribute[:]
    with pytest.raises(Problem, match=r"node 4 \(If\) lacks its then_branch"):
        graph_of(made)
    made = branching("Tanh", "Neg")
    made.graph.node[4].attribute[0].g.node[0].input[0] = "nowhere"
    made.graph.node[4].attribute[1].g.node[0].input[0] = "nowhere"
    with pytest.raises(Problem, match="which nothing makes"):
        graph_of(made)
