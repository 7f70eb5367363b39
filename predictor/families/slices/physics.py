"""The share of a GPU that a MIG slice has, and the time formula for slices.

On the whole GPU, ``t = (A^p + B^p)^(1/p)``; on a slice, ``B`` becomes ``B / e``. Here

- ``t``: time of a batch (seconds);
- ``A``: time of kernel launches and host work, which no slice lengthens (seconds, fitted);
- ``B``: time of GPU work (seconds, fitted);
- ``p``: sharpness of the maximum (fitted). For a large ``p``, both parts overlap fully (roofline);
  for ``p = 1``, they follow each other (Amdahl);
- ``e``: effective share of the slice, 0 to 1.

The effective share lies between the slice's share of compute and its share of memory bandwidth. It
exceeds both where a small slice runs at a higher clock than the power-limited whole GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from berth.pilot.documents import Document
from berth.predictor.core.arrays import Floats
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile

LATENT_LEAST, LATENT_MOST = -5.0, 4.0
"""Range of ``log(B / A)``; values outside are set to the nearest limit."""
TYPICAL = 0.6
"""Mean log slow-down as a part of its upper limit, the log of 1 / effective share (0.35 to 1.0, by
model); used where nothing tells a workload's own."""
EASE = 0.1
"""Part of an interval's width that does not depend on the slice's effective share."""
_SAME = 1e-6
"""Largest difference of two shares that count as equal."""


@dataclass(frozen=True, slots=True, order=True)
class SliceShare:
    """A slice's share of the GPU's compute slices and of its memory slices, each 0 to 1."""

    compute: float
    memory: float

    def __post_init__(self) -> None:
        if not (0 < self.compute <= 1 and 0 < self.memory <= 1):
            raise ValueError(f"not shares of a GPU: {self.compute}, {self.memory}")

    @property
    def is_whole(self) -> bool:
        """Return whether a slice has all compute slices of its GPU."""
        return self.compute >= 1 - _SAME

    @property
    def most_log_slowdown(self) -> float:
        """Return the log of the largest slow-down that the hardware explains: by the smaller of the
        two shares, as if all of the time were computed, or all of it read from memory."""
        return -math.log(min(self.compute, self.memory))

    def within(self, other: SliceShare) -> bool:
        """Return whether slice ``other`` has at least as large a share of compute and of memory."""
        return self.compute <= other.compute + _SAME and self.memory <= other.memory + _SAME

    def matches(self, compute: float, memory: float) -> bool:
        """Return whether a slice has these shares of its GPU's compute and memory."""
        return abs(self.compute - compute) < _SAME and abs(self.memory - memory) < _SAME


class MeasuredShare(Document):
    """The effective share of a GPU that one MIG slice size has, fitted to measured slow-downs."""

    compute: float = Field(gt=0, le=1)
    memory: float = Field(gt=0, le=1)
    effective: float = Field(gt=0, le=1)


class ShareModel(Document):
    """Effective shares of a GPU by MIG slice size: fitted where measured, else by a formula.

    The formula is ``scale c^(1-w) m^w``, where

    - ``c``, ``m``: the slice's shares of compute and of memory;
    - ``scale``, ``w`` (``memory_weight``): fitted constants.
    """

    measured: tuple[MeasuredShare, ...]
    scale: float = Field(gt=0)
    memory_weight: float = Field(ge=0, le=1)

    def knows(self, share: SliceShare) -> bool:
        """Return whether the effective share of this slice size was fitted to measurements."""
        return share.is_whole or any(share.matches(m.compute, m.memory) for m in self.measured)

    def effective(self, share: SliceShare) -> float:
        """Return the effective share of a slice, between 0 and 1; 1 for the whole GPU."""
        if share.is_whole:
            return 1.0
        for m in self.measured:
            if share.matches(m.compute, m.memory):
                return m.effective
        w = self.memory_weight
        return float(min(1.0, self.scale * share.compute ** (1 - w) * share.memory**w))


def log_smooth_max(log_a: Floats, log_b: Floats, sharpness: Floats | float) -> Floats:
    """Return the log of the smooth maximum ``(A^p + B^p)^(1/p)`` of two times, from their logs.

    ``p`` is ``sharpness``. The computation does not overflow.
    """
    top = np.maximum(log_a, log_b)
    rest = np.minimum(log_a, log_b) - top
    return np.asarray(top + np.log1p(np.exp(sharpness * rest)) / sharpness, dtype=np.float64)


def log_slowdown(latent: Floats, effective: Floats | float, sharpness: float) -> Floats:
    """Return the log of (time on the slice / time on the whole GPU).

    ``latent`` is ``log(B / A)`` on the whole GPU; ``effective`` is the slice's effective share.
    """
    held = np.clip(latent, LATENT_LEAST, LATENT_MOST)
    zero = np.zeros_like(held)
    small = log_smooth_max(zero, held - np.log(effective), sharpness)
    return np.asarray(small - log_smooth_max(zero, held, sharpness), dtype=np.float64)


def most_log_slowdown(utilisation: float, effective: float) -> float:
    """Return the log of the largest slow-down of a program with this utilisation of the whole GPU:
    the part of its time without a kernel cannot be slowed down."""
    return math.log((1.0 - utilisation) + utilisation / effective)


def launch_share(latent: float, effective: float, sharpness: float) -> float:
    """Return the share of a slice's time that a larger slice would not shorten, 0 to 1.

    This is ``A^p / (A^p + B^p)`` on the slice (see the module's formula).
    """
    log_b = latent - math.log(effective)
    return 1 / (1 + math.exp(min(sharpness * log_b, 700.0)))


def share_of(geometry: Geometry, profile: SliceProfile) -> SliceShare:
    """Return a MIG profile's shares of the GPU's compute slices and memory slices."""
    return SliceShare(
        min(1.0, profile.compute_slices / geometry.compute_slices),
        min(1.0, profile.memory_slices / geometry.memory_slices),
    )


def plain_profiles(geometry: Geometry) -> tuple[SliceProfile, ...]:
    """Return the MIG profiles without media variants, smallest first; the last is the whole GPU."""
    return tuple(
        sorted(
            (p for p in geometry.profiles if p.is_plain),
            key=lambda p: (p.memory_slices, p.compute_slices, p.name),
        )
    )
