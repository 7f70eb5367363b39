"""Tensors during shape inference: type, shape, and the values of small constants.

This module uses the standard library only. Types are ONNX's codes (TensorProto.DataType).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from berth.pilot.protobuf import Problem
from berth.predictor.graphs.limits import LIMITS

Shape: TypeAlias = tuple[int, ...]
Values: TypeAlias = tuple[float, ...]

FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL = 1, 2, 3, 6, 7, 8, 9
FLOAT16, DOUBLE, BFLOAT16 = 10, 11, 16
BITS = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 8: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64,
    14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}  # fmt: skip
"""Bits per element by type; a string counts as a 64-bit reference."""
TYPE_NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
    19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
    24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
FLOATS = frozenset({1, 10, 11, 14, 15, 16, 17, 18, 19, 20, 23, 24})


class Tensor(NamedTuple):
    """An activation or constant of the graph: its type, shape and, where small, its values."""

    dtype: int
    shape: Shape
    values: Values | None = None
    """Values of a small constant, flat in C order."""
    stored: int | None = None
    """Number of elements that the file stores for a constant; None for an activation."""

    @property
    def elements(self) -> int:
        """Return the tensor's number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Return the tensor's size in bytes when stored densely, with sub-byte types packed."""
        return (math.prod(self.shape) * BITS.get(self.dtype, 32) + 7) // 8


def checked(shape: Iterable[int], subject: str = "a tensor") -> Shape:
    """Return a tensor's shape as a tuple after checking its sizes.

    Raises Problem for a negative size, too many dimensions, or too many elements.
    """
    sizes = tuple(shape)
    if len(sizes) > LIMITS.rank:
        raise Problem(f"gives {subject} {len(sizes)} dimensions; {LIMITS.rank} are accepted")
    total = 1
    for size in sizes:
        if size < 0:
            raise Problem(f"gives {subject} a negative dimension ({size})")
        total *= size
        if total > LIMITS.elements:
            raise Problem(f"gives {subject} more than {LIMITS.elements:.1e} elements")
    return sizes


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that numpy's broadcasting gives. Raises Problem for incompatible shapes."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max(len(shape) for shape in shapes)
    joint = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for axis, size in enumerate(shape, offset):
            if size != 1:
                if joint[axis] not in (1, size):
                    shown = " and ".join(str(list(s)) for s in shapes)
                    raise Problem(f"combines shapes that do not go together: {shown}")
                joint[axis] = size
    return checked(joint)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis as 0 to ``rank`` - 1; negative axes count from the end.

    Raises Problem for an axis outside of ``rank``.
    """
    if not -rank <= axis < rank:
        raise Problem(f"names axis {axis} of a tensor of rank {rank}")
    return axis % rank
