"""The plain profiles of a GPU model, and the part of the GPU that each is."""

from __future__ import annotations

from berth.predictor.families.slices.physics import Share
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile


def share_of(geometry: Geometry, profile: SliceProfile) -> Share:
    """The profile's parts of compute and memory."""
    return Share(
        min(1.0, profile.compute_slices / geometry.compute_slices),
        min(1.0, profile.memory_slices / geometry.memory_slices),
    )


def plain_profiles(geometry: Geometry) -> tuple[SliceProfile, ...]:
    """Without media variants, small before large; the last one is the whole GPU."""
    return tuple(
        sorted(
            (p for p in geometry.profiles if p.is_plain),
            key=lambda p: (p.memory_slices, p.compute_slices, p.name),
        )
    )
