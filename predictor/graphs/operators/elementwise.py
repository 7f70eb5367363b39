"""Shape and cost rules of element-wise operators (with broadcasting) and of quantisation."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat

from berth.predictor.graphs.limits import KNOWN_VALUES
from berth.predictor.graphs.operators.base import (
    Call,
    OpFamily,
    add,
    each_output,
    like_first,
    nothing,
)
from berth.predictor.graphs.values import (
    BOOL,
    FLOAT,
    FLOATS,
    UINT8,
    Shape,
    Tensor,
    Values,
    broadcast,
)

_LARGEST = 2**63


def _divide(a: float, b: float) -> float:
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)  # ONNX truncates
        return quotient if (a < 0) == (b < 0) else -quotient
    return a / b


def _power(a: float, b: float) -> float:
    if abs(a) > 2**31 or abs(b) > 64:
        raise OverflowError
    return float(a**b) if isinstance(a, float) or b < 0 else int(a**b)


_BINARY: dict[str, Callable[[float, float], float]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _divide,
    "Mod": lambda a, b: a % b,
    "FMod": math.fmod,
    "Pow": _power,
    "Max": max,
    "Min": min,
    "Equal": lambda a, b: int(a == b),
    "Less": lambda a, b: int(a < b),
    "LessOrEqual": lambda a, b: int(a <= b),
    "Greater": lambda a, b: int(a > b),
    "GreaterOrEqual": lambda a, b: int(a >= b),
    "And": lambda a, b: int(bool(a and b)),
    "Or": lambda a, b: int(bool(a or b)),
    "Xor": lambda a, b: int(bool(a) != bool(b)),
}
_UNARY: dict[str, Callable[[float], float]] = {
    "Neg": lambda a: -a,
    "Abs": abs,
    "Not": lambda a: int(not a),
    "Floor": math.floor,
    "Ceil": math.ceil,
    "Round": round,
    "Sqrt": math.sqrt,
    "Reciprocal": lambda a: 1 / a,
    "Sign": lambda a: (a > 0) - (a < 0),
}
_LOGICAL = frozenset(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"}
)


def spread(tensor: Tensor, shape: Shape) -> Values | None:
    """Return a constant's values broadcast to ``shape``, as a flat tuple.

    None where the values are unknown or more than ``KNOWN_VALUES``.
    """
    values = tensor.values
    if values is None or math.prod(shape) > KNOWN_VALUES:
        return None
    if tensor.shape == shape:
        return values
    if len(values) == 1:
        return tuple(repeat(values[0], math.prod(shape)))
    own = (1,) * (len(shape) - len(tensor.shape)) + tensor.shape
    steps, step = [0] * len(own), 1
    for axis in reversed(range(len(own))):
        steps[axis] = 0 if own[axis] == 1 else step
        step *= own[axis]
    places = [0]
    for size, by in zip(shape, steps, strict=True):
        places = [place + n * by for place in places for n in range(size)]
    return tuple(values[place] for place in places)


def fitted(values: list[float] | None, dtype: int) -> Values | None:
    """Return computed values as numbers of an ONNX type: floats, or integers of 64 bits.

    None where ``values`` is None, or an integer is not finite or exceeds 64 bits.
    """
    if values is None:
        return None
    if dtype in FLOATS:
        return tuple(float(v) for v in values)
    if any(not -_LARGEST <= v < _LARGEST for v in values):
        return None
    return tuple(int(v) for v in values)


def _binary(call: Call) -> list[Tensor]:
    inputs = [operand for operand in call.inputs if operand is not None]
    first = call.tensor(0)
    shape = broadcast([operand.shape for operand in inputs])
    dtype = BOOL if call.operator in _LOGICAL else first.dtype
    values = None
    name = "FMod" if call.integer("fmod", 0) else call.operator
    if all(operand.values is not None for operand in inputs) and name in _BINARY:
        values = _computed(name, inputs, shape, dtype)
    return [Tensor(dtype, shape, values)]


def _computed(operator: str, inputs: list[Tensor], shape: Shape, dtype: int) -> Values | None:
    work = _BINARY[operator]
    values = spread(inputs[0], shape)
    for operand in inputs[1:]:
        other = spread(operand, shape)
        if values is None or other is None:
            return None
        try:
            results = [work(a, b) for a, b in zip(values, other, strict=True)]
            values = fitted(results, dtype)
        except (ArithmeticError, ValueError, TypeError):
            return None
    return values


def _unary(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    values = None
    work = _UNARY.get(call.operator)
    if first.values is not None and work is not None:
        try:
            values = fitted([work(value) for value in first.values], first.dtype)
        except (ArithmeticError, ValueError):
            values = None
    return [Tensor(first.dtype, first.shape, values)]


def _boolean(call: Call) -> list[Tensor]:
    return [Tensor(BOOL, call.tensor(0).shape)]


def _where(call: Call) -> list[Tensor]:
    condition, yes, no = call.tensor(0), call.tensor(1), call.tensor(2)
    shape = broadcast([condition.shape, yes.shape, no.shape])
    choose, first, second = (spread(operand, shape) for operand in (condition, yes, no))
    values = None
    if choose is not None and first is not None and second is not None:
        values = tuple(b if a else c for a, b, c in zip(choose, first, second, strict=True))
    return [Tensor(yes.dtype, shape, values)]


def _cast(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    dtype = call.integer("to", first.dtype)
    if call.operator == "CastLike":
        dtype = call.tensor(1).dtype
    values = None
    if first.values is not None:
        try:
            whole = dtype not in FLOATS
            cast_values = [math.trunc(value) if whole else value for value in first.values]
            values = fitted(
                [int(bool(v)) for v in cast_values] if dtype == BOOL else cast_values, dtype
            )
        except (ArithmeticError, ValueError):
            values = None
    return [Tensor(dtype, first.shape, values)]


def _clip(call: Call) -> list[Tensor]:
    first, low, high = call.tensor(0), call.optional(1), call.optional(2)
    values = None
    if first.values is not None and first.dtype not in FLOATS:
        bounds = [bound.values if bound is not None else () for bound in (low, high)]
        if None not in bounds:
            least = bounds[0][0] if bounds[0] else -_LARGEST
            most = bounds[1][0] if bounds[1] else _LARGEST
            values = fitted([min(max(v, least), most) for v in first.values], first.dtype)
    return [Tensor(first.dtype, first.shape, values)]


def _dropout(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    outputs = [Tensor(first.dtype, first.shape, first.values)]
    return outputs + [Tensor(BOOL, first.shape)] * (call.outputs - 1)


def _bitcast(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    return [Tensor(call.integer("to", UINT8), first.shape)]


def _fold(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    return 0, max(len(call.inputs) - 1, 1) * outputs[0].elements


add("Add Sub Mul Div Mod Pow BitShift", OpFamily.ELEMENTWISE, _binary, each_output(1))
add("BitwiseAnd BitwiseOr BitwiseXor", OpFamily.ELEMENTWISE, _binary, each_output(1))
add(" ".join(sorted(_LOGICAL)), OpFamily.ELEMENTWISE, _binary, each_output(1))
add("Max Min Sum Mean", OpFamily.ELEMENTWISE, _binary, _fold)
add(
    "Neg Abs Not Floor Ceil Round Sqrt Reciprocal Sign",
    OpFamily.ELEMENTWISE,
    _unary,
    each_output(1),
)
add("Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh", OpFamily.ELEMENTWISE, _unary, each_output(1))
add("Asinh Acosh Atanh Erf BitwiseNot", OpFamily.ELEMENTWISE, _unary, each_output(1))
add("IsNaN IsInf", OpFamily.ELEMENTWISE, _boolean, each_output(1))
add("Where", OpFamily.ELEMENTWISE, _where, each_output(1))
add("Clip", OpFamily.ACTIVATION, _clip, each_output(2))
add("Cast CastLike", OpFamily.ELEMENTWISE, _cast, nothing)
add("BitCast", OpFamily.VIEW, _bitcast, nothing)
add("Dropout", OpFamily.VIEW, _dropout, nothing)

add("Relu Tanh", OpFamily.ACTIVATION, like_first, each_output(1))
add("LeakyRelu PRelu ThresholdedRelu Shrink", OpFamily.ACTIVATION, like_first, each_output(2))
# 1 / (1 + exp(-x))
add("Sigmoid HardSigmoid", OpFamily.ACTIVATION, like_first, each_output(4))
add("HardSwish Swish", OpFamily.ACTIVATION, like_first, each_output(5))
add("SwiGLU", OpFamily.ACTIVATION, like_first, each_output(6))
# x / 2 (1 + erf(x / sqrt 2)): 5 operations; the approximation with tanh takes 8.
add(
    "Gelu com.microsoft:Gelu com.microsoft:QuickGelu",
    OpFamily.ACTIVATION,
    like_first,
    each_output(5),
)
add("com.microsoft:FastGelu", OpFamily.ACTIVATION, like_first, each_output(8))
add("com.microsoft:BiasGelu", OpFamily.ACTIVATION, like_first, each_output(6))
add("Elu Selu Celu Softplus Softsign", OpFamily.ACTIVATION, like_first, each_output(4))
add("Mish", OpFamily.ACTIVATION, like_first, each_output(5))


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
add("QuantizeLinear com.microsoft:QuantizeLinear", OpFamily.QUANTISATION, _quantise, each_output(5))
add(
    "DequantizeLinear com.microsoft:DequantizeLinear",
    OpFamily.QUANTISATION,
    _dequantise,
    each_output(2),
)
# As QuantizeLinear, after finding the smallest and the largest value.
add("DynamicQuantizeLinear", OpFamily.QUANTISATION, _dynamic, each_output(7))
