"""Memory of model graphs: small ones by hand, memory models, intervals, odd input."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from small_models import attention, constant, convolutional, graph_of, model, tensor
from thorough import examples

from berth.predictor.core.prediction import Interval
from berth.predictor.footprint.energy import IDLE_SHARE, energy
from berth.predictor.footprint.footprint import (
    ADAM,
    MemoryFit,
    MemoryTask,
    Need,
    count,
    fits,
    footprint,
    memory_of,
    runtime_of,
)
from berth.predictor.footprint.runtimes import RUNTIMES, DeviceMemory, RuntimeName, runtimes
from berth.predictor.footprint.saved import saved
from berth.predictor.footprint.storage import storage
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware.device import Numbers

IMAGE = 3 * 8 * 8 * 4
"""Bytes of one input of the small convolutional model."""
MAP = 8 * 8 * 8 * 4
"""Bytes of one of its feature maps."""


def kept_bytes(graph: ModelGraph, *, fused: bool = True) -> int:
    stored = storage(graph, strided=True, fused=fused)
    found = saved(graph, stored)
    memories = {stored.owner[node] for node in found.nodes}
    return sum(stored.written[node] for node in memories) + sum(stored.twin) + found.extra_bytes


def counted(graph: ModelGraph, task: MemoryTask = MemoryTask.INFERENCE, **options: object) -> Need:
    return count(graph, task, on_gpu=False, **options)  # type: ignore[arg-type]


def test_a_residual_block_holds_three_maps_and_two_in_place() -> None:
    need = counted(graph_of(convolutional(blocks=1), 4))
    # The shortcut, what the convolution writes, and what the normalisation writes.
    assert need.activations == 4 * 3 * MAP
    assert need.inputs == 4 * IMAGE
    # In place: the shortcut and the one map that normalisation and ReLU write over.
    assert need.least - need.weights - need.inputs == 4 * 2 * MAP


def test_what_autograd_keeps_of_a_residual_block() -> None:
    graph = graph_of(convolutional(blocks=1), 1)
    # The stem's output (read by the convolution), the convolution's (read by the normalisation),
    # the ReLU's own; the pooled vector, read by the last layer. The sum and the mean keep nothing.
    assert kept_bytes(graph) == 3 * MAP + 8 * 4


def test_training_adds_gradients_moments_and_what_autograd_keeps() -> None:
    graph = graph_of(convolutional(blocks=2), 2)
    inference, training = counted(graph), counted(graph, MemoryTask.TRAINING)
    assert training.gradients == 4 * graph.parameters
    assert training.moments == ADAM * 4 * graph.parameters
    assert training.activations > counted(graph, MemoryTask.RECORDED).activations * 0.99
    assert training.allocated > inference.allocated + training.gradients + training.moments
    assert counted(graph, MemoryTask.TRAINING, moments=0).moments == 0


def test_pointwise_runs_of_one_tensor_are_one_kernel() -> None:
    gate = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Mul", ["c", "s"], ["m"]),
        helper.make_node("Conv", ["m", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = graph_of(model(gate, [constant("w", 8, 3, 3, 3), constant("v", 8, 8, 3, 3)]), 1)
    assert counted(graph).activations == 2 * MAP
    assert kept_bytes(graph) == 2 * MAP  # what SiLU reads and what the second convolution reads


def test_a_long_chain_of_pointwise_nodes_is_more_than_one_kernel() -> None:
    names = ["x", *(f"t{n}" for n in range(60))]
    chain = [helper.make_node("Tanh", [a], [b]) for a, b in pairwise(names)]
    graph = graph_of(model(chain, inputs=[tensor("x", "N", 1000)]), 1)
    assert 5 <= kept_bytes(graph) / 4000 <= 60


def test_a_bias_after_a_product_is_part_of_it() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    weights = [constant("w", 16, 32), constant("b", 32)]
    graph = graph_of(model(nodes, weights, [tensor("x", "N", 16)]), 5)
    assert counted(graph).activations == 5 * 32 * 4


def test_attention_keeps_both_sides_of_its_products() -> None:
    graph = graph_of(attention(layers=1), 1, {"sequence": 10})
    rows, scores = 10 * 16 * 4, 4 * 10 * 10 * 4
    # q, k and v, softmax's output, the joined heads. (The model's input is its caller's.)
    assert kept_bytes(graph) == 3 * rows + scores + rows


def test_maxima_are_kept_with_their_places() -> None:
    pool = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    graph = graph_of(model(pool, [constant("w", 8, 3, 3, 3)]), 1)
    assert kept_bytes(graph) == MAP + 8 * (8 * 4 * 4)


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from(list(MemoryTask)), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_memory_grows_with_the_batch(one: int, other: int, task: MemoryTask, on_gpu: bool) -> None:
    small, large = (
        count(graph_of(convolutional(), batch), task, on_gpu=on_gpu)
        for batch in sorted((one, other))
    )
    assert small.allocated <= large.allocated
    assert small.activations <= large.activations
    low, high = footprint(small).memory, footprint(large).memory
    assert low.mid <= high.mid
    assert low.high <= high.high


@pytest.mark.parametrize("on_gpu", [True, False])
@pytest.mark.parametrize("task", list(MemoryTask))
def test_intervals_hold_what_is_counted_and_are_ordered(task: MemoryTask, on_gpu: bool) -> None:
    found = footprint(count(graph_of(convolutional(), 8), task, on_gpu=on_gpu))
    memory = found.memory
    assert found.need.least <= memory.low <= memory.mid <= memory.high
    assert found.overhead_bytes > 0


def test_half_precision_halves_what_is_counted_but_not_the_weights_of_autocast() -> None:
    graph = graph_of(convolutional(), 8)
    full, half = counted(graph), counted(graph, numbers=Numbers.FP16)
    assert half.activations * 2 == full.activations
    assert half.weights * 2 == full.weights
    trained = counted(graph, MemoryTask.TRAINING, numbers=Numbers.FP16)
    assert trained.gradients == 4 * graph.parameters
    assert trained.weights == full.weights * 3 // 2  # a copy in half precision beside the weights


def test_operators_nobody_knows_keep_what_they_read_and_write() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Mystery", ["c"], ["m"], domain="nowhere"),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    made = model(nodes, [constant("w", 8, 3, 3, 3)])
    made.opset_import.append(helper.make_opsetid("nowhere", 1))
    graph = graph_of(made, 1)
    assert sum(graph.unknown.values()) == 1
    assert counted(graph).unknown == 1
    assert kept_bytes(graph) >= 2 * MAP
    assert counted(graph).activations >= MAP


def test_tensors_of_no_size_need_nothing() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    graph = graph_of(model(nodes, inputs=[tensor("x", "N", "M", 8)]), 4, {"M": 0})
    need = count(graph, MemoryTask.TRAINING)
    assert (need.activations, need.inputs, need.weights) == (0, 0, 0)
    assert footprint(need).memory.mid > 0  # the context is there


def test_huge_shapes_neither_overflow_nor_fit() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Tanh", ["r"], ["y"])]
    graph = graph_of(model(nodes, inputs=[tensor("x", "N", 2**22, 2**22)]), 8)
    found = footprint(count(graph, MemoryTask.TRAINING))
    assert found.need.activations > 2**47
    assert found.fits(141e9) is MemoryFit.NO


@pytest.mark.parametrize(
    ("memory", "said"),
    [(1.0, MemoryFit.NO), (2.0, MemoryFit.MAY), (3.9, MemoryFit.MAY), (4.0, MemoryFit.YES)],
)
def test_fits_by_the_interval(memory: float, said: MemoryFit) -> None:
    assert fits(Interval(1.5, 3.0, 4.0), memory) is said


def test_shipped_memory_models_are_sound_and_say_what_they_do_not_cover() -> None:
    assert RUNTIMES.is_file()
    assert set(runtimes()) == set(RuntimeName)
    for runtime in runtimes().values():
        assert runtime.limits
        assert runtime.labels >= runtime.models
        assert runtime.memory.share.low <= 1 <= runtime.memory.share.high


def test_a_device_memory_model_is_context_and_share() -> None:
    need = counted(graph_of(convolutional(), 2))
    runtime = runtime_of(MemoryTask.INFERENCE, on_gpu=True)
    memory = runtime.memory
    assert isinstance(memory, DeviceMemory)
    large = dataclasses.replace(need, allocated=10**10)
    said = memory_of(large, runtime)
    assert said.high == pytest.approx(memory.context_bytes.high + memory.share.high * 10**10)
    assert said.mid == pytest.approx(memory.context_bytes.mid + memory.share.mid * 10**10)


def test_energy_is_power_over_time_and_idle_power_while_waiting() -> None:
    seconds = Interval(1.0, 2.0, 4.0)
    busy = energy(seconds, 400.0, 50.0, 0.0)
    waiting = energy(seconds, 400.0, 50.0, 1.0)
    assert busy is not None
    assert waiting is not None
    assert (busy.joules.mid, busy.joules.high) == (800.0, 1600.0)
    assert waiting.joules.low == 50.0
    assert waiting.idle_share == 1.0
    assert busy.idle_share == 50 / 400
    assert energy(seconds, None, None, 0.5) is None
    unknown = energy(seconds, 400.0, None, 1.0)
    assert unknown is not None
    assert unknown.joules.low == 400 * IDLE_SHARE
