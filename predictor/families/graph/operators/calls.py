"""Operators as numbers, one entry each: what the physics and the learnt utilisation work on.

A *product* is ``groups`` products of [rows, inner] by [inner, columns]; a convolution is one with
images x output positions as rows (implicit GEMM). A *vector* operator (element-wise, softmax,
normalisation) works on [rows, columns].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from berth.predictor.core.arrays import Floats

Integers: TypeAlias = NDArray[np.int64]

WINOGRAD = 2.25
"""Fewer multiplications of a 3x3 convolution of stride 1: F(2x2, 3x3), Lavin and Gray, CVPR 2016.
"""


class Kind(IntEnum):
    """What is run; each kind of these was measured."""

    PRODUCT = 0
    """Of two activations, batched."""
    LINEAR = 1
    """With weights and a bias."""
    CONVOLUTION = 2
    """3x3 of stride 1, ungrouped. Others are taken as LINEAR (implicit GEMM)."""
    UNARY = 3
    """One tensor read, one written; also what is only memory-bound."""
    BINARY = 4
    SOFTMAX = 5
    NORMALISATION = 6


MATRIX = (Kind.PRODUCT, Kind.LINEAR, Kind.CONVOLUTION)


@dataclass(frozen=True)
class Calls:
    """[n] each. Bytes are those read and written once."""

    kind: Integers
    groups: Floats
    rows: Floats
    columns: Floats
    inner: Floats
    """1 for vector operators."""
    flops: Floats
    """As direct arithmetic: 2 a multiply-accumulate."""
    moved_bytes: Floats

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Calls:
        return Calls(**{one.name: getattr(self, one.name)[chosen] for one in fields(self)})

    @staticmethod
    def joined(*parts: Calls) -> Calls:
        """One after the other."""
        return Calls(**{
            one.name: np.concatenate([getattr(part, one.name) for part in parts])
            for one in fields(Calls)
        })  # fmt: skip


def products(
    groups: ArrayLike, rows: ArrayLike, columns: ArrayLike, inner: ArrayLike,
    *, bytes_each: float = 4.0,
) -> Calls:  # fmt: skip
    """Batched products of activations."""
    g, m, n, k = _columns(groups, rows, columns, inner)
    return _calls(Kind.PRODUCT, (g, m, n, k), 2 * g * m * n * k,
                  bytes_each * g * (m * k + k * n + m * n))  # fmt: skip


def linears(
    rows: ArrayLike, columns: ArrayLike, inner: ArrayLike, *, bytes_each: float = 4.0
) -> Calls:
    """Products with weights [inner, columns], and a bias."""
    m, n, k = _columns(rows, columns, inner)
    return _calls(Kind.LINEAR, (np.ones_like(m), m, n, k), 2 * m * n * k,
                  bytes_each * (m * k + k * n + m * n))  # fmt: skip


def convolutions(
    images: ArrayLike, inputs: ArrayLike, outputs: ArrayLike, height: ArrayLike,
    width: ArrayLike, *, bytes_each: float = 4.0,
) -> Calls:  # fmt: skip
    """3x3 convolutions of stride 1 and padding 1."""
    b, i, o, h, w = _columns(images, inputs, outputs, height, width)
    m, k = b * h * w, 9 * i
    return _calls(Kind.CONVOLUTION, (np.ones_like(m), m, o, k), 2 * m * o * k,
                  bytes_each * (m * i + k * o + m * o))  # fmt: skip


def vectors(kind: Kind, rows: ArrayLike, columns: ArrayLike, *, bytes_each: float = 4.0) -> Calls:
    """Element-wise operators, softmax or layer normalisation over [rows, columns]."""
    m, n = _columns(rows, columns)
    tensors = 3 if kind is Kind.BINARY else 2
    work = {Kind.SOFTMAX: 5.0, Kind.NORMALISATION: 8.0}.get(kind, 1.0)
    one = np.ones_like(m)
    return _calls(kind, (one, m, n, one), work * m * n, bytes_each * tensors * m * n)


def _columns(*given: ArrayLike) -> list[Floats]:
    wide = np.broadcast_arrays(*(np.atleast_1d(np.asarray(x, np.float64)) for x in given))
    return [np.array(x) for x in wide]


def _calls(kind: Kind, sizes: Sequence[Floats], flops: Floats, moved: Floats) -> Calls:
    groups, rows, columns, inner = sizes
    return Calls(np.full(len(flops), int(kind)), groups, rows, columns, inner, flops, moved)
