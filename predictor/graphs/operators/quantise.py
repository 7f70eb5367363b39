"""Integer quantisation: scaling, rounding and shifting by a zero point."""

from __future__ import annotations

from berth.predictor.graphs.operators.base import Call, Family, add, each_output
from berth.predictor.graphs.values import FLOAT, UINT8, Tensor


def _quantise(call: Call) -> list[Tensor]:
    first, zero = call.tensor(0), call.optional(2)
    dtype = zero.dtype if zero is not None else call.integer("output_dtype", 0) or UINT8
    return [Tensor(dtype, first.shape)]


def _dequantise(call: Call) -> list[Tensor]:
    first, scale = call.tensor(0), call.tensor(1)
    return [Tensor(scale.dtype, first.shape)]


def _dynamic(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    every = [Tensor(UINT8, first.shape), Tensor(FLOAT, ()), Tensor(UINT8, ())]
    return every[: call.outputs]


# Division, rounding, addition of the zero point, saturation from both sides.
add("QuantizeLinear com.microsoft:QuantizeLinear", Family.QUANTISATION, _quantise, each_output(5))
add(
    "DequantizeLinear com.microsoft:DequantizeLinear",
    Family.QUANTISATION,
    _dequantise,
    each_output(2),
)
# And the smallest and largest value first.
add("DynamicQuantizeLinear", Family.QUANTISATION, _dynamic, each_output(7))
