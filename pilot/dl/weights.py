"""Weights and inputs made up for a model whose ONNX file leaves its weights out.

External tensors are listed by name, type and shape: only field headers are read, and no file is
opened but the model's own. Field numbers are those of onnx.proto: ModelProto.graph 7,
GraphProto.initializer 5; TensorProto.dims 1, data_type 2, name 8, data_location 14 (1: external).
Values are sized so that activations neither vanish nor overflow: a vanishing activation would be
denormal, and those are slow on a CPU, so times would be wrong.
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
"""ONNX's codes of the element types that weights can be made of here."""


@dataclass(frozen=True, slots=True)
class Stub:
    """One external tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return how many numbers the tensor holds."""
        return math.prod(self.shape)


def external_tensors(path: Path) -> list[Stub]:
    """Return the external initializers of the model's graph.

    Raises DocumentError where the file is no protobuf message or a type cannot be made up.
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
"""Random numbers that are drawn; larger tensors repeat them."""


class TooLarge(MemoryError):
    """The weights alone are beyond the cap; the message says by what."""


def total_bytes(stubs: Sequence[Stub]) -> int:
    """Return the bytes of all tensors together."""
    return sum(stub.elements * np.dtype(stub.dtype).itemsize for stub in stubs)


def check_cap(stubs: Sequence[Stub], cap_bytes: int) -> None:
    """Raise TooLarge where the weights alone are beyond ``cap_bytes``."""
    needed = total_bytes(stubs)
    if needed > cap_bytes:
        raise TooLarge(
            f"the weights alone are {format_bytes(needed)}, {format_bytes(cap_bytes)} are allowed"
        )


class Maker:
    """Makes arrays from one seed, always the same."""

    def __init__(self, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        self._normal = generator.standard_normal(POOL, dtype=np.float32)
        self._uniform = generator.random(POOL, dtype=np.float32)

    def weight(self, stub: Stub) -> NDArray[np.generic]:
        """Make a matrix or kernel of variance 1/fan-in, or a vector (bias, scale) near 1."""
        dtype = np.dtype(stub.dtype)
        if dtype.kind != "f":
            return np.zeros(stub.shape, dtype)
        if len(stub.shape) < 2:
            values = 0.5 + np.resize(self._uniform, stub.elements)
        else:
            # Kernels are [out, in, *size], matrices [in, out]: the smaller guess of the two.
            fan_in = max(1, min(math.prod(stub.shape[1:]), math.prod(stub.shape[:-1])))
            values = np.resize(self._normal, stub.elements)
            values *= 1 / math.sqrt(fan_in)
        return values.reshape(stub.shape).astype(dtype, copy=False)

    def input(self, dtype: str, shape: Sequence[int]) -> NDArray[np.generic]:
        """Make an input: standard normal numbers, zeros (indices) or ones (masks)."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            count = math.prod(shape)
            return np.resize(self._normal, count).reshape(tuple(shape)).astype(kind, copy=False)
        return np.ones(tuple(shape), kind) if kind.kind == "b" else np.zeros(tuple(shape), kind)
