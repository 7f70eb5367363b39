"""Random weights and inputs for a model whose ONNX file does not contain its weights.

External tensors are listed by name, type and shape: only field headers are read, and no file other
than the model's is opened. Field numbers are those of onnx.proto: ModelProto.graph 7,
GraphProto.initializer 5; TensorProto.dims 1, data_type 2, name 8, data_location 14 (1: external).
Weights are scaled so that activations neither vanish nor overflow: denormal activations are slow on
a CPU and would falsify the times.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import DocumentError
from berth.pilot.protobuf import Problem, scan, varint
from berth.pilot.units import format_bytes

NUMPY_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""numpy's name of each ONNX element type that weights can be generated in, by ONNX's code."""


@dataclass(frozen=True, slots=True)
class Stub:
    """An external tensor of a model: name, type and shape, without values."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return the tensor's number of elements."""
        return math.prod(self.shape)


def external_tensors(path: Path) -> list[Stub]:
    """Return the initializers of an ONNX model whose values are not in the file.

    Raises DocumentError where the file is no protobuf message or a type cannot be generated.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
            return [
                stub
                for number, start, end in scan(data, 0, len(data))
                if number == 7 and end >= 0
                for inner, a, b in scan(data, start, end)
                if inner == 5 and b >= 0 and (stub := _stub(path, data, a, b)) is not None
            ]
    except (IndexError, ValueError, OSError, Problem):
        raise DocumentError(path, "is not an ONNX model, or is truncated") from None


def _stub(path: Path, data: mmap.mmap, start: int, end: int) -> Stub | None:
    dims: list[int] = []
    dtype = location = 0
    name = ""
    for number, a, b in scan(data, start, end):
        if number == 1 and b < 0:
            dims.append(a)
        elif number == 1:
            at = a
            while at < b:
                size, at = varint(data, at)
                dims.append(size)
        elif number == 2 and b < 0:
            dtype = a
        elif number == 8 and b >= 0:
            name = data[a:b].decode("utf-8", "replace")
        elif number == 14 and b < 0:
            location = a
    if location != 1:
        return None
    if dtype not in NUMPY_TYPES:
        raise DocumentError(path, f"weight {name[:60]!r} is of ONNX type {dtype}, not made up here")
    return Stub(name, NUMPY_TYPES[dtype], tuple(dims))


POOL = 1 << 20
"""Number of random values that are drawn; larger tensors repeat them."""


class TooLarge(MemoryError):
    """Raised where the weights alone exceed the memory limit; the message has both sizes."""


def total_bytes(stubs: Sequence[Stub]) -> int:
    """Return the total size of the tensors in bytes."""
    return sum(stub.elements * np.dtype(stub.dtype).itemsize for stub in stubs)


def check_cap(stubs: Sequence[Stub], cap_bytes: int) -> None:
    """Raise TooLarge where the weights alone exceed ``cap_bytes``."""
    needed = total_bytes(stubs)
    if needed > cap_bytes:
        raise TooLarge(
            f"the weights alone are {format_bytes(needed)}, {format_bytes(cap_bytes)} are allowed"
        )


class RandomValues:
    """Generates weights and inputs; equal calls return equal arrays."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self._normal = generator.standard_normal(POOL, dtype=np.float32)
        self._uniform = generator.random(POOL, dtype=np.float32)

    def weight(self, stub: Stub) -> NDArray[np.generic]:
        """Return random values for a weight tensor; integer tensors are 0.

        Matrices and kernels have variance 1 / fan-in, vectors (bias, scale) are in 0.5 to 1.5.
        """
        dtype = np.dtype(stub.dtype)
        if dtype.kind != "f":
            return np.zeros(stub.shape, dtype)
        if len(stub.shape) < 2:
            values = 0.5 + np.resize(self._uniform, stub.elements)
        else:
            # Kernels are [out, in, *size], matrices [in, out]; the smaller fan-in is used.
            fan_in = max(1, min(math.prod(stub.shape[1:]), math.prod(stub.shape[:-1])))
            values = np.resize(self._normal, stub.elements)
            values *= 1 / math.sqrt(fan_in)
        return values.reshape(stub.shape).astype(dtype, copy=False)

    def input(self, dtype: str, shape: Sequence[int]) -> NDArray[np.generic]:
        """Return values for an input: standard normal floats, integers 0, booleans True."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            count = math.prod(shape)
            return np.resize(self._normal, count).reshape(tuple(shape)).astype(kind, copy=False)
        return np.ones(tuple(shape), kind) if kind.kind == "b" else np.zeros(tuple(shape), kind)
