"""MIG: what each GPU can be cut into, and the platforms of its slices."""

from __future__ import annotations

from berth.predictor.hardware.mig.geometry import Difference, Geometry, Media, SliceProfile, diff
from berth.predictor.hardware.mig.table import geometry_of, known_gpus, lookup

__all__ = [
    "Difference",
    "Geometry",
    "Media",
    "SliceProfile",
    "diff",
    "geometry_of",
    "known_gpus",
    "lookup",
]
