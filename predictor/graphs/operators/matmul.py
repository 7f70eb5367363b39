"""Shape and cost rules of matrix products, Gemm, Einsum, determinants and recurrent layers."""

from __future__ import annotations

import math

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.operators.base import Call, OpFamily, add
from berth.predictor.graphs.values import INT32, Shape, Tensor, broadcast, checked


def _product_shape(a: Shape, b: Shape) -> tuple[Shape, int]:
    """Return the shape of a matrix product as numpy defines it, and the length summed over.

    Raises Problem for incompatible shapes.
    """
    if not a or not b:
        raise Problem("multiplies a scalar as a matrix")
    left, right = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    if left[-1] != right[-2]:
        raise Problem(f"multiplies matrices {list(a)} and {list(b)}")
    batch = broadcast([left[:-2], right[:-2]]) if len(left) > 2 or len(right) > 2 else ()
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    return checked((*batch, *rows, *columns)), left[-1]


def _operands(call: Call) -> tuple[Shape, Shape]:
    if call.operator == "QLinearMatMul":
        return call.tensor(0).shape, call.tensor(3).shape
    a, b = call.tensor(0).shape, call.tensor(1).shape
    if call.integer("transA", 0) and len(a) > 1:
        a = (*a[:-2], a[-1], a[-2])
    if call.integer("transB", 0) and len(b) > 1:
        b = (*b[:-2], b[-1], b[-2])
    return a, b


def _matmul(call: Call) -> list[Tensor]:
    shape, _ = _product_shape(*_operands(call))
    dtype = INT32 if call.operator == "MatMulInteger" else call.tensor(0).dtype
    return [Tensor(dtype, shape)]


def _matmul_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    _, length = _product_shape(*_operands(call))
    return outputs[0].elements * length, 0


def _gemm(call: Call) -> list[Tensor]:
    a, b = _operands(call)
    if len(a) != 2 or len(b) != 2:
        raise Problem(f"multiplies {list(a)} and {list(b)}, which are not matrices")
    shape, _ = _product_shape(a, b)
    return [Tensor(call.tensor(0).dtype, shape)]


def _gemm_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    _, length = _product_shape(*_operands(call))
    biased = outputs[0].elements if call.optional(2) is not None else 0
    return outputs[0].elements * length, biased


def _terms(call: Call) -> tuple[list[str], str, dict[str, int]]:
    """Return an Einsum's input terms, its output term, and the size of each letter.

    Ellipses are replaced by letters. Raises Problem for an equation that does not fit the inputs.
    """
    text = call.text("equation", "").replace(" ", "")
    left, arrow, result = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(call.inputs):
        raise Problem(f"has the equation {text[:60]!r} for {len(call.inputs)} inputs")
    sizes: dict[str, int] = {}
    spelt = []
    extra = ""
    for position, term in enumerate(inputs):
        shape = call.tensor(position).shape
        letters = term.replace("...", "")
        more = len(shape) - len(letters)
        if more < 0 or (more and "..." not in term):
            raise Problem(f"has the equation {text[:60]!r} for {list(shape)}")
        hidden = "".join(chr(0xE000 + n) for n in range(16 - more, 16))
        extra = hidden if len(hidden) > len(extra) else extra
        spelt.append(term.replace("...", hidden))
        for letter, size in zip(spelt[-1], shape, strict=True):
            known = sizes.get(letter, 1)
            if known not in (1, size) and size != 1:
                raise Problem(f"has the equation {text[:60]!r} with sizes {known} and {size}")
            sizes[letter] = max(known, size)
    if not arrow:
        every = "".join(spelt)
        result = "..." + "".join(sorted(c for c in set(every) - set(extra) if every.count(c) == 1))
    result = result.replace("...", extra)
    if any(letter not in sizes for letter in result):
        raise Problem(f"has the equation {text[:60]!r}, which names an unknown dimension")
    return spelt, result, sizes


def _einsum(call: Call) -> list[Tensor]:
    _, result, sizes = _terms(call)
    return [Tensor(call.tensor(0).dtype, checked(sizes[letter] for letter in result))]


def _einsum_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Inputs are contracted pairwise from the left, as frameworks do without path optimisation.
    spelt, result, sizes = _terms(call)
    if len(spelt) == 1:
        return 0, call.tensor(0).elements if len(result) < len(set(spelt[0])) else 0
    macs, left = 0, set(spelt[0])
    for position, term in enumerate(spelt[1:], 1):
        macs += math.prod(sizes[letter] for letter in left | set(term))
        later = set(result).union(*spelt[position + 1 :])
        left = (left | set(term)) & later
    return macs, 0


def _packed(call: Call) -> list[Tensor]:
    a = call.tensor(0)
    inner, columns = call.integer("K", 0), call.integer("N", 0)
    if not a.shape or a.shape[-1] != inner or columns < 1:
        raise Problem(f"multiplies {list(a.shape)} by packed weights {inner} x {columns}")
    return [Tensor(a.dtype, checked((*a.shape[:-1], columns)))]


def _packed_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Each weight is scaled once: a multiplication and a subtraction of its zero point.
    inner, columns = call.integer("K", 0), call.integer("N", 0)
    return outputs[0].elements * inner, 2 * inner * columns


def _determinant(call: Call) -> list[Tensor]:
    first = call.tensor(0)
    if len(first.shape) < 2 or first.shape[-1] != first.shape[-2]:
        raise Problem(f"takes the determinant of {list(first.shape)}")
    return [Tensor(first.dtype, first.shape[:-2])]


def _determinant_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # LU decomposition: 2/3 n^3 operations.
    first = call.tensor(0)
    return 0, 2 * first.elements * first.shape[-1] // 3


add("Det", OpFamily.MATMUL, _determinant, _determinant_cost)
add("MatMul MatMulInteger QLinearMatMul", OpFamily.MATMUL, _matmul, _matmul_cost)
add(
    "com.microsoft:FusedMatMul com.microsoft:TransposeMatMul",
    OpFamily.MATMUL,
    _matmul,
    _matmul_cost,
)
add("Gemm com.microsoft:FusedGemm", OpFamily.MATMUL, _gemm, _gemm_cost)
add("Einsum", OpFamily.MATMUL, _einsum, _einsum_cost)
add("com.microsoft:MatMulNBits", OpFamily.MATMUL, _packed, _packed_cost)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _sizes(call: Call) -> tuple[int, int, int, int, int]:
    """Return a recurrent layer's steps, batch, input size, hidden size and directions."""
    data, weight = call.tensor(0).shape, call.tensor(1).shape
    if len(data) != 3 or len(weight) != 3:
        raise Problem(f"runs over {list(data)} with weights {list(weight)}")
    hidden = call.integer("hidden_size", weight[1] // GATES[call.operator])
    steps, batch = (data[1], data[0]) if call.integer("layout", 0) else (data[0], data[1])
    return steps, batch, data[2], hidden, weight[0]


def _layer(call: Call) -> list[Tensor]:
    steps, batch, _, hidden, directions = _sizes(call)
    dtype = call.tensor(0).dtype
    if call.integer("layout", 0):
        every, last = (batch, steps, directions, hidden), (batch, directions, hidden)
    else:
        every, last = (steps, directions, batch, hidden), (directions, batch, hidden)
    state = Tensor(dtype, checked(last))
    return [Tensor(dtype, checked(every)), state, state][: call.outputs]


def _layer_cost(call: Call, outputs: list[Tensor]) -> tuple[int, int]:
    # Each gate multiplies inputs and state by its weights, then does about 8 operations per unit.
    steps, batch, inputs, hidden, directions = _sizes(call)
    units = steps * batch * directions * hidden * GATES[call.operator]
    return units * (inputs + hidden), 8 * units


add("RNN GRU LSTM", OpFamily.RECURRENT, _layer, _layer_cost)
