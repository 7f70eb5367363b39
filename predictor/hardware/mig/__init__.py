"""MIG: what each GPU can be cut into, and the platforms of its slices."""

from __future__ import annotations

from berth.predictor.hardware.mig.catalogue import known_gpus, lookup
from berth.predictor.hardware.mig.geometry import Difference, Geometry, Media, SliceProfile, diff

__all__ = ["Difference", "Geometry", "Media", "SliceProfile", "diff", "known_gpus", "lookup"]
