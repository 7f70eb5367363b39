"""Shape rules of operators that create tensors, and refusal of data-dependent output sizes."""

from __future__ import annotations

import math

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.limits import KNOWN_VALUES
from berth.predictor.graphs.operators.base import Call, OpFamily, add, nothing
from berth.predictor.graphs.values import FLOAT, FLOATS, INT64, STRING, Tensor, Values, checked


def _constant(call: Call) -> list[Tensor]:
    for name, value in call.attributes.items():
        if name == "value" and isinstance(value, Tensor):
            return [value]
        if name == "value_int" and isinstance(value, int):
            return [Tensor(INT64, (), (value,), 0)]
        if name == "value_float" and isinstance(value, float):
            return [Tensor(FLOAT, (), (value,), 1)]
        if name in ("value_ints", "value_floats") and isinstance(value, tuple):
            dtype = INT64 if name == "value_ints" else FLOAT
            known = tuple(x for x in value if isinstance(x, int | float))
            return [
                Tensor(
                    dtype, (len(known),), known if len(known) <= KNOWN_VALUES else None, len(known)
                )
            ]
        if name == "value_string":
            return [Tensor(STRING, (), None, 0)]
        if name == "value_strings" and isinstance(value, tuple):
            return [Tensor(STRING, (len(value),), None, 0)]
    raise Problem("is a constant without a value that can be read")


def _constant_of_shape(call: Call) -> list[Tensor]:
    shape = checked(call.known(0, "shape"))
    value = call.attributes.get("value")
    fill = value if isinstance(value, Tensor) else Tensor(FLOAT, (1,), (0.0,))
    count = math.prod(shape)
    values = fill.values[:1] * count if fill.values and count <= KNOWN_VALUES else None
    return [Tensor(fill.dtype, shape, values)]


def _range(call: Call) -> list[Tensor]:
    start, limit, delta = (call.tensor(n) for n in range(3))
    if not (start.values and limit.values and delta.values):
        raise Problem(
            "counts up to what only a run can know, so its shape is unknown",
            "export the model with fixed shapes",
        )
    first, last, step = start.values[0], limit.values[0], delta.values[0]
    try:
        count = max(math.ceil((last - first) / step), 0)
    except (ArithmeticError, ValueError):
        raise Problem("counts by steps that lead nowhere") from None
    shape = checked((count,))
    values: Values | None = None
    if count <= KNOWN_VALUES:
        every = tuple(first + n * step for n in range(count))
        if start.dtype in FLOATS or all(abs(value) < 2**63 for value in every):
            values = every
    return [Tensor(start.dtype, shape, values)]


def _eye_like(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    return [Tensor(call.integer("dtype", first.dtype), first.shape)]


def _random(call: Call) -> list[Tensor]:
    return [Tensor(call.integer("dtype", FLOAT), checked(call.integers("shape") or ()))]


def _multinomial(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    count = call.integer("sample_size", 1)
    return [Tensor(call.integer("dtype", 6), checked((*first.shape[:1], count)))]


def _window(call: Call) -> list[Tensor]:
    return [Tensor(call.integer("output_datatype", FLOAT), checked(call.known(0, "size")[:1]))]


def _at_run_time(call: Call) -> list[Tensor]:
    raise Problem(
        "gives a result whose size depends on the data, so its shape is unknown before a run",
        "export the part of the model before it",
    )


add("Constant", OpFamily.SHAPE, _constant, nothing)
add("ConstantOfShape", OpFamily.MOVEMENT, _constant_of_shape, nothing)
add("Range", OpFamily.MOVEMENT, _range, nothing)
add("EyeLike", OpFamily.MOVEMENT, _eye_like, nothing)
add("RandomNormalLike RandomUniformLike Bernoulli", OpFamily.MOVEMENT, _eye_like, nothing)
add("RandomNormal RandomUniform", OpFamily.MOVEMENT, _random, nothing)
add("Multinomial", OpFamily.SELECTION, _multinomial, nothing)
add("HannWindow HammingWindow BlackmanWindow", OpFamily.MOVEMENT, _window, nothing)
add("NonZero Compress Unique NonMaxSuppression", OpFamily.SELECTION, _at_run_time, nothing)
