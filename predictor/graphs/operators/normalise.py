"""Shape and cost rules of normalisations and softmax; comments derive operations per element."""

from __future__ import annotations

from berth.predictor.graphs.operators.base import (
    Call,
    CostRule,
    OpFamily,
    add,
    each_output,
    like_first,
)
from berth.predictor.graphs.values import FLOAT, Tensor, axis_of


def _statistics(call: Call) -> list[Tensor]:
    """Return the normalised output, then mean and inverse deviation, whose reduced axes are 1."""
    first = call.tensor(0)
    outputs = [Tensor(first.dtype, first.shape)]
    if call.outputs > 1:
        axis = axis_of(call.integer("axis", -1), len(first.shape))
        reduced = first.shape[:axis] + (1,) * (len(first.shape) - axis)
        outputs += [Tensor(call.integer("stash_type", FLOAT), reduced)] * (call.outputs - 1)
    return outputs


def _batch(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    outputs = [Tensor(first.dtype, first.shape)]
    return outputs + [Tensor(call.tensor(3).dtype, call.tensor(3).shape)] * (call.outputs - 1)


def _skip(call: Call) -> list[Tensor]:
    """Return the outputs of com.microsoft's SkipLayerNormalization.

    They are the normalised output, mean, inverse deviation, and the sum before normalisation.
    """
    first = call.tensor(0)
    reduced = Tensor(FLOAT, (*first.shape[:-1], 1))
    every = [Tensor(first.dtype, first.shape), reduced, reduced, Tensor(first.dtype, first.shape)]
    return every[: call.outputs]


def _scaled(base: int, scale: int, bias: int) -> CostRule:
    """Return a cost rule of ``base`` operations per element, plus 1 each for a scale and a bias.

    ``scale`` and ``bias`` are the positions of these optional inputs.
    """

    def cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
        flops = base + sum(call.optional(place) is not None for place in (scale, bias))
        return 0, flops * outputs[0].elements

    return cost


# At inference the statistics are constants: one multiplication, one addition.
add("BatchNormalization", OpFamily.NORMALISATION, _batch, each_output(2))
# Mean 1, difference 1, square 1, sum 1, times the inverse deviation 1.
add("LayerNormalization", OpFamily.NORMALISATION, _statistics, _scaled(5, 1, 2))
add(
    "InstanceNormalization GroupNormalization", OpFamily.NORMALISATION, like_first, _scaled(5, 1, 2)
)
add("com.microsoft:GroupNorm", OpFamily.NORMALISATION, like_first, _scaled(5, 1, 2))
add("MeanVarianceNormalization", OpFamily.NORMALISATION, like_first, each_output(5))
# Square 1, sum 1, times the inverse root 1.
add(
    "RMSNormalization SimplifiedLayerNormalization com.microsoft:SimplifiedLayerNormalization",
    OpFamily.NORMALISATION,
    _statistics,
    _scaled(3, 1, 9),
)
add("LpNormalization", OpFamily.NORMALISATION, like_first, each_output(3))
add("com.microsoft:SkipLayerNormalization", OpFamily.NORMALISATION, _skip, _scaled(6, 2, 3))
add(
    "com.microsoft:SkipSimplifiedLayerNormalization",
    OpFamily.NORMALISATION,
    _skip,
    _scaled(4, 2, 3),
)
# Square 1, window's sum 1 (running), scale 1, add 1, power 1, division 1.
add("LRN", OpFamily.NORMALISATION, like_first, each_output(6))
# Largest 1, difference 1, exponential 1, sum 1, division 1.
add("Softmax LogSoftmax", OpFamily.SOFTMAX, like_first, each_output(5))
add("Hardmax", OpFamily.SOFTMAX, like_first, each_output(2))
