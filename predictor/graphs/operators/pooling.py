"""Shape and cost rules of pooling, reductions, losses, cumulative sums and top-k."""

from __future__ import annotations

import math
from collections.abc import Callable

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators.base import (
    Call,
    OpFamily,
    add,
    each_input,
    each_output,
    like_first,
)
from berth.predictor.graphs.operators.convolution import windows
from berth.predictor.graphs.operators.elementwise import fitted
from berth.predictor.graphs.values import INT64, Shape, Tensor, Values, axis_of, checked


def _pool(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    kernel = call.integers("kernel_shape") or ()
    if len(first.shape) != len(kernel) + 2:
        raise Problem(f"pools {list(first.shape)} by a window {list(kernel)}")
    spatial = windows(call, first.shape[2:], kernel, ceil_mode=bool(call.integer("ceil_mode", 0)))
    shape = checked((*first.shape[:2], *spatial))
    return [Tensor(first.dtype, shape), Tensor(INT64, shape)][: max(call.outputs, 1)]


def _pool_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return 0, math.prod(call.integers("kernel_shape") or ()) * outputs[0].elements


def _global(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    if len(first.shape) < 2:
        raise Problem(f"pools {list(first.shape)}")
    return [Tensor(first.dtype, first.shape[:2] + (1,) * (len(first.shape) - 2))]


def _axes(call: Call, rank: int) -> tuple[int, ...]:
    axes = call.given_integers("axes", 1)
    if not axes:
        return () if call.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(axis_of(axis, rank) for axis in axes)


def _reduce(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    axes = set(_axes(call, len(first.shape)))
    keep = call.integer("keepdims", 1)
    shape = tuple(
        1 if axis in axes else size
        for axis, size in enumerate(first.shape)
        if keep or axis not in axes
    )
    return [Tensor(first.dtype, shape, _reduced(call.operator, first, axes))]


def _reduced(operator: str, first: Tensor, axes: set[int]) -> Values | None:
    if not first.values or len(axes) != len(first.shape):
        return None
    work = _FOLDS.get(operator)
    return fitted([work(first.values)], first.dtype) if work else None


_FOLDS: dict[str, Callable[[Values], float]] = {
    "ReduceProd": math.prod,
    "ReduceSum": sum,
    "ReduceMax": max,
    "ReduceMin": min,
}


def _argument(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    axis = axis_of(call.integer("axis", 0), len(first.shape))
    reduced: Shape = (1,) if call.integer("keepdims", 1) else ()
    return [Tensor(INT64, first.shape[:axis] + reduced + first.shape[axis + 1 :])]


def _top(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), len(first.shape))
    count = call.known(1, "number of results")
    if len(count) != 1:
        raise Problem("asks for no single number of results")
    shape = checked((*first.shape[:axis], *count, *first.shape[axis + 1 :]))
    return [Tensor(first.dtype, shape), Tensor(INT64, shape)][: call.outputs]


def _sorted_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Each element is compared once per level of a heap that holds the results.
    first = call.tensor(0)
    axis = axis_of(call.integer("axis", -1), len(first.shape))
    results = outputs[0].shape[axis] if outputs[0].shape else 1
    return 0, first.elements * max(results.bit_length(), 1)


def _loss(call: Call) -> list[Tensor]:
    first, target = call.tensor(0), call.tensor(1)
    each = call.text("reduction", "mean") == "none"
    loss = Tensor(first.dtype, target.shape if each else ())
    return [loss, Tensor(first.dtype, first.shape)][: max(call.outputs, 1)]


add("NegativeLogLikelihoodLoss", OpFamily.REDUCTION, _loss, each_input(1))
add("SoftmaxCrossEntropyLoss", OpFamily.REDUCTION, _loss, each_input(6))
add("AveragePool MaxPool LpPool", OpFamily.POOLING, _pool, _pool_cost)
add("GlobalAveragePool GlobalMaxPool GlobalLpPool", OpFamily.POOLING, _global, each_input(1))
add(
    "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd",
    OpFamily.REDUCTION,
    _reduce,
    each_input(1),
)
add("ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum", OpFamily.REDUCTION, _reduce, each_input(2))
add("ReduceLogSumExp", OpFamily.REDUCTION, _reduce, each_input(4))
add("ArgMax ArgMin", OpFamily.REDUCTION, _argument, each_input(1))
add("CumSum CumProd", OpFamily.REDUCTION, like_first, each_output(1))
add("TopK", OpFamily.SELECTION, _top, _sorted_cost)
