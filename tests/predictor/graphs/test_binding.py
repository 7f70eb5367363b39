"""The batch and other open dimensions; what the file does not say is asked for by name."""

from __future__ import annotations

import pytest
from onnx import helper
from small_models import constant, graph_of, model, tensor

from berth.pilot.protobuf import Problem


def relu(*inputs):
    nodes = [helper.make_node("Relu", [i.name], [f"y{n}"]) for n, i in enumerate(inputs)]
    return model(nodes, inputs=inputs)


def test_an_open_batch_is_one_unless_asked_for() -> None:
    made = relu(tensor("x", "batch", 3), tensor("z", "batch", 4))
    assert [p.shape for p in graph_of(made).inputs] == [(1, 3), (1, 4)]
    assert [p.shape for p in graph_of(made, 6).inputs] == [(6, 3), (6, 4)]


@pytest.mark.parametrize("first", [None, 0, -1, "anything"])
def test_an_unnamed_first_dimension_is_the_batch(first) -> None:
    assert graph_of(relu(tensor("x", first, 3)), 5).inputs[0].shape == (5, 3)


def test_a_dimension_named_batch_is_the_batch_wherever_it_stands() -> None:
    made = relu(tensor("x", "length", "batch_size", 3))
    assert graph_of(made, 5, {"length": 7}).inputs[0].shape == (7, 5, 3)
    assert graph_of(made, sizes={"length": 7, "batch_size": 5}).batch == 5
    with pytest.raises(Problem, match="leaves the dimension 'length'"):
        graph_of(made, 5)


def test_a_fixed_batch_is_kept_and_no_other_is_made_up() -> None:
    made = relu(tensor("x", 4, 3))
    assert graph_of(made).batch == 4
    assert graph_of(made, 4).batch == 4
    with pytest.raises(Problem, match="has its batch fixed at 4, so batch 8"):
        graph_of(made, 8)


def test_an_open_dimension_that_is_not_given_is_named() -> None:
    made = relu(tensor("x", "batch", "sequence"))
    with pytest.raises(Problem, match="leaves the dimension 'sequence' of input 'x' open") as error:
        graph_of(made, 2)
    assert "--dim sequence=16" in error.value.hint
    assert graph_of(made, 2, {"sequence": 7}).inputs[0].shape == (2, 7)


def test_sums_and_products_of_names_are_understood() -> None:
    made = relu(tensor("x", "b", "past"), tensor("z", "b", "past + now * 2 - 1"))
    assert graph_of(made, 2, {"past": 4, "now": 3}).inputs[1].shape == (2, 9)
    with pytest.raises(Problem, match="open"):
        graph_of(relu(tensor("x", "b", "max(a, c)")), 2, {"a": 1, "c": 2})
    with pytest.raises(Problem, match="open"):
        graph_of(relu(tensor("x", "b", f"a * {'9' * 5_000}")), 2, {"a": 1})


def test_an_input_without_a_shape_is_refused() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])])
    made.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(Problem, match="does not say which shape its input 'x' has"):
        graph_of(made)


def test_an_input_that_is_not_a_tensor_is_refused() -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])])
    kind = made.graph.input[0].type.sequence_type.elem_type.tensor_type
    kind.elem_type = 1
    with pytest.raises(Problem, match="not a tensor"):
        graph_of(made)


def test_a_constant_that_is_also_an_input_is_no_input() -> None:
    made = model(
        [helper.make_node("Gemm", ["x", "w"], ["y"])],
        [constant("w", 3, 2)],
        [tensor("x", "b", 3), tensor("w", 3, 2)],
    )
    graph = graph_of(made, 2)
    assert [p.name for p in graph.inputs] == ["x"]
    assert graph.parameters == 6


def test_dimensions_without_a_name_are_set_by_position() -> None:
    made = relu(tensor("images", None, 3, None, None), tensor("mask", None, None))
    with pytest.raises(Problem, match="unnamed dimension 2 of input 'images' open") as error:
        graph_of(made, 2, {"1": 5})
    assert "--dim images:2=640" in error.value.hint
    sizes = {"2": 640, "images:3": 480, "1": 5}
    graph = graph_of(made, 2, sizes)
    assert [p.shape for p in graph.inputs] == [(2, 3, 640, 480), (2, 5)]
    assert graph_of(made, None, {**sizes, "0": 8}).batch == 8
    with pytest.raises(Problem, match="fixed at 8, so batch 2"):
        graph_of(made, 2, {**sizes, "0": 8})


def test_a_question_mark_is_no_name_so_that_two_of_them_are_set_apart() -> None:
    made = relu(tensor("images", "n", 3, "?", "?"))
    (port,) = graph_of(made, 1, {"2": 48, "3": 192}).inputs
    assert port.shape == (1, 3, 48, 192)


@pytest.mark.parametrize("key", ["sequnce", "3", "z:0", "x:1", ""])
def test_a_size_that_no_dimension_takes_is_refused_with_those_that_are_open(key: str) -> None:
    made = relu(tensor("x", "batch", 3, "past + sequence"))
    sizes = {"past": 1, "sequence": 7}
    with pytest.raises(Problem, match=f"no open dimension '{key}'") as error:
        graph_of(made, 2, {**sizes, key: 7})
    assert error.value.hint == "open are: batch, past, sequence"


def test_a_size_for_a_graph_without_open_dimensions_is_refused() -> None:
    with pytest.raises(Problem, match="no open dimension 'sequence'") as error:
        graph_of(relu(tensor("x", 4, 3)), None, {"sequence": 7})
    assert error.value.hint == "none is open"
