"""Weights and inputs made up on the fly: sized so that activations neither vanish nor overflow.

A vanishing activation would be denormal, and those are slow on a CPU: times would be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from berth.pilot.dl.stubs import Stub
from berth.pilot.units import format_bytes

POOL = 1 << 20
"""Random numbers that are drawn; larger tensors repeat them."""


class TooLarge(MemoryError):
    """The weights alone are beyond the cap; the message says by what."""


def total_bytes(stubs: Sequence[Stub]) -> int:
    """Of all tensors together."""
    return sum(stub.elements * np.dtype(stub.dtype).itemsize for stub in stubs)


def check_cap(stubs: Sequence[Stub], cap_bytes: int) -> None:
    """Raises TooLarge where the weights alone are beyond ``cap_bytes``."""
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
        """A matrix or kernel of variance 1/fan-in; a vector (bias, scale, variance) near 1."""
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
        """An input: standard normal numbers, or zeros of an integer type (indices, masks: ones)."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            count = math.prod(shape)
            return np.resize(self._normal, count).reshape(tuple(shape)).astype(kind, copy=False)
        return np.ones(tuple(shape), kind) if kind.kind == "b" else np.zeros(tuple(shape), kind)
