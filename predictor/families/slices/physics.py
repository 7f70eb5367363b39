"""The share of a GPU that a slice is, and how a time grows on it: a smooth maximum of two times.

``A``: the time that a smaller slice does not stretch (kernel launches, the host). ``B``: the work,
which is stretched by ``1 / effective share``. ``t = (A^p + B^p)^(1/p)``; a large ``p`` says that
the two overlap perfectly (roofline), ``p = 1`` that they follow each other (Amdahl).

The effective share of a slice lies between its shares of compute and of memory bandwidth, and
above both where a small slice clocks higher than the power-limited whole GPU.
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
_SAME = 1e-6


@dataclass(frozen=True, slots=True, order=True)
class Share:
    """What part of the whole GPU a slice is: compute slices and memory slices."""

    compute: float
    memory: float

    def __post_init__(self) -> None:
        if not (0 < self.compute <= 1 and 0 < self.memory <= 1):
            raise ValueError(f"not shares of a GPU: {self.compute}, {self.memory}")

    @property
    def is_whole(self) -> bool:
        """Return whether a slice has all compute of its GPU."""
        return self.compute >= 1 - _SAME

    def within(self, other: Share) -> bool:
        """Return whether ``other`` has at least as much of everything."""
        return self.compute <= other.compute + _SAME and self.memory <= other.memory + _SAME

    def matches(self, compute: float, memory: float) -> bool:
        """Return whether these are its shares."""
        return abs(self.compute - compute) < _SAME and abs(self.memory - memory) < _SAME


class MeasuredShare(Document):
    """An effective share that was learnt from measurements."""

    compute: float = Field(gt=0, le=1)
    memory: float = Field(gt=0, le=1)
    effective: float = Field(gt=0, le=1)


class ShareModel(Document):
    """Effective shares: learnt where measured, else ``scale c^(1-w) m^w``."""

    measured: tuple[MeasuredShare, ...]
    scale: float = Field(gt=0)
    memory_weight: float = Field(ge=0, le=1)

    def knows(self, share: Share) -> bool:
        """Return whether this share was among the measured ones."""
        return share.is_whole or any(share.matches(m.compute, m.memory) for m in self.measured)

    def effective(self, share: Share) -> float:
        """Return the effective share, between 0 and 1; 1 for the whole GPU."""
        if share.is_whole:
            return 1.0
        for m in self.measured:
            if share.matches(m.compute, m.memory):
                return m.effective
        w = self.memory_weight
        return float(min(1.0, self.scale * share.compute ** (1 - w) * share.memory**w))


def log_smooth_max(log_a: Floats, log_b: Floats, sharpness: Floats | float) -> Floats:
    """Return ``log (A^p + B^p)^(1/p)`` without overflow."""
    top = np.maximum(log_a, log_b)
    rest = np.minimum(log_a, log_b) - top
    return np.asarray(top + np.log1p(np.exp(sharpness * rest)) / sharpness, dtype=np.float64)


def log_slowdown(latent: Floats, effective: Floats | float, sharpness: float) -> Floats:
    """Return the log of t_slice / t_whole where ``B = e^latent A`` on the whole GPU."""
    held = np.clip(latent, LATENT_LEAST, LATENT_MOST)
    zero = np.zeros_like(held)
    small = log_smooth_max(zero, held - np.log(effective), sharpness)
    return np.asarray(small - log_smooth_max(zero, held, sharpness), dtype=np.float64)


def launch_share(latent: float, effective: float, sharpness: float) -> float:
    """Return how much of the time on the slice is what it does not stretch: ``A^p / (A^p +
    B^p)``."""
    log_b = latent - math.log(effective)
    return 1 / (1 + math.exp(min(sharpness * log_b, 700.0)))


def share_of(geometry: Geometry, profile: SliceProfile) -> Share:
    """Return the profile's parts of compute and memory."""
    return Share(
        min(1.0, profile.compute_slices / geometry.compute_slices),
        min(1.0, profile.memory_slices / geometry.memory_slices),
    )


def plain_profiles(geometry: Geometry) -> tuple[SliceProfile, ...]:
    """Return the profiles without media variants, small before large; the last one is the whole
    GPU."""
    return tuple(
        sorted(
            (p for p in geometry.profiles if p.is_plain),
            key=lambda p: (p.memory_slices, p.compute_slices, p.name),
        )
    )
