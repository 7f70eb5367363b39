"""Peaks by precision: what a device computes in units of its own, and what in wider ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from berth.pilot.platform import Peaks, Precision

WIDER: Mapping[Precision, tuple[Precision, ...]] = {
    Precision.TF32: (Precision.FP32,),
    Precision.FP16: (Precision.FP32,),
    Precision.BF16: (Precision.FP32,),
    Precision.FP8: (Precision.FP16, Precision.BF16),
    Precision.INT8: (Precision.FP16, Precision.BF16),
    Precision.FP4: (Precision.FP8,),
}
"""What a precision is computed in where a device has no units for it."""


class Numbers(StrEnum):
    """What a model computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bits(self) -> int:
        """Of an element as it is stored."""
        return {"fp32": 32, "tf32": 32, "fp16": 16, "bf16": 16, "fp8": 8}[self.value]

    @property
    def precision(self) -> Precision:
        """The same as a number format."""
        return Precision(self.value)


def best(peaks: Peaks, precision: Precision) -> float | None:
    """With or without matrix units, the faster; None: no units of its own."""
    found = [table[precision] for table in (peaks.matrix, peaks.vector) if precision in table]
    return max(found, default=None)


def attainable(peaks: Peaks, precision: Precision) -> float | None:
    """As ``best``, or in the fastest wider precision; None where nothing is stated."""
    wider = (attainable(peaks, other) for other in WIDER.get(precision, ()))
    found = [peak for peak in (best(peaks, precision), *wider) if peak is not None]
    return max(found, default=None)


def of_bits(peaks: Peaks, bits: float) -> float:
    """Of matrix products on operands of so many bits; above 16 without matrix units.

    Raises KeyError where neither fp32 nor a half precision is stated.
    """
    half = attainable(peaks, Precision.BF16) or 0.0
    half = max(half, attainable(peaks, Precision.FP16) or 0.0)
    if bits > 16:
        return peaks.vector.get(Precision.FP32) or half / 2
    if bits > 8:
        return half
    eight = best(peaks, Precision.FP8) or half
    return eight if bits > 4 else best(peaks, Precision.FP4) or eight


def joined(sheet: Peaks | None, own: Peaks | None) -> Peaks | None:
    """A data sheet's peaks with a platform file's over them."""
    if sheet is None or own is None:
        return own or sheet
    return Peaks(vector={**sheet.vector, **own.vector}, matrix={**sheet.matrix, **own.matrix})
