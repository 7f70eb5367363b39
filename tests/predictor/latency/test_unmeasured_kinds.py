"""What no source has measured the like of: told as such, and never cheaper than its steps."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, helper
from small_models import constant, convolutional, graph_of, model, tensor

from berth.pilot.errors import UsageError
from berth.predictor import predict
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.operators.predictor import operator_model
from berth.predictor.families.graph.times import times
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import roofs

KNOWN = platforms.shipped()
ROOFS = roofs(KNOWN)


def recurrent(steps: int) -> ModelGraph:
    """An LSTM layer of 64 units."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r"], ["y"], hidden_size=64),
    ]
    weights = [constant("w", 1, 256, 32), constant("r", 1, 256, 64)]
    made = model(nodes, weights, [tensor("x", "N", steps, 32)])
    return graph_of(made, batch=2)


def notes(made: ModelProto | ModelGraph) -> set[str]:
    graph = made if isinstance(made, ModelGraph) else graph_of(made, batch=1)
    found = times(graph, list(ROOFS.values()), KNOWN)
    assert {one.basis for one in found} == {Basis.PRIOR}
    return {note for one in found for note in (one.note or "").split("; ")}


@pytest.mark.parametrize("numbers", [Numbers.FP32, Numbers.FP16])
def test_the_steps_of_a_recurrent_layer_wait_for_one_another(numbers: Numbers) -> None:
    few = {
        one.roof.platform: one for one in times(recurrent(10), [*ROOFS.values()], KNOWN, numbers)
    }
    many = times(recurrent(200), [*ROOFS.values()], KNOWN, numbers)
    for one in many:
        assert one.seconds.mid > 5 * few[one.roof.platform].seconds.mid
        assert one.seconds.mid > 190 * 1e-6


def test_recurrent_layers_are_said_to_be_unmeasured() -> None:
    told = "1 recurrent layers, of which none was measured, by their steps"
    assert told in notes(recurrent(10))


def test_a_roofline_of_many_cores_says_that_one_core_was_learnt_from() -> None:
    for one in times(recurrent(10), list(ROOFS.values()), KNOWN):
        many = not one.roof.is_gpu and KNOWN[one.roof.platform].cores > 1
        said = "fitted on one core" in (one.note or "")
        assert said is (many and one.source == "roofline")


def test_unknown_operators_are_said_to_be_missing_from_every_time() -> None:
    node = helper.make_node("FlashThing", ["x"], ["y"], domain="acme")
    made = model([node], [], [tensor("x", "N", 3, 8, 8)])
    made.opset_import.append(helper.make_opsetid("acme", 1))
    assert "1 operators are unknown, and their work is not in the time" in notes(made)


def test_quantised_operators_are_said_to_be_taken_as_floats() -> None:
    node = helper.make_node("ConvInteger", ["q", "w"], ["y"])
    cast = helper.make_node("Cast", ["x"], ["q"], to=2)
    weights = helper.make_tensor("w", 2, [4, 3, 3, 3], bytes(108), raw=True)
    made = model([cast, node], [weights], [tensor("x", "N", 3, 8, 8)])
    assert "1 quantised operators, of which none was measured, taken as floats" in notes(made)
    graph = graph_of(made, batch=1)
    told, floats = (operator_model().graph_interval(one, 1.0) for one in (
        graph, graph_of(convolutional(), batch=1)
    ))  # fmt: skip
    assert told == floats


@pytest.mark.parametrize("batch", ["2", 1.5, True])
def test_a_batch_that_is_no_whole_number_is_one_sentence(batch: Any) -> None:
    with pytest.raises(UsageError, match="whole number"):
        predict(graph_of(convolutional(), batch=1), batch=batch)
