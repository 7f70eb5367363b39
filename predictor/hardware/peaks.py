"""Peaks by precision: what a device computes in units of its own, and what in wider ones."""

from __future__ import annotations

from enum import StrEnum

from berth.pilot.platform import Peaks, Precision


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


def of_bits(peaks: Peaks, bits: float) -> float:
    """Of matrix products on operands of so many bits; above 16 without matrix units."""
    reached = peaks.attainable
    half = max(reached.get(Precision.BF16, 0.0), reached.get(Precision.FP16, 0.0))
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
