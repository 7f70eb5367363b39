"""A slice workload on one GPU model: a prediction for each plain profile, and where those are."""

from __future__ import annotations

from collections.abc import Mapping

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform, PlatformKind
from berth.predictor.families.slices.predictor import SlicePrediction, SlicePredictor
from berth.predictor.families.slices.profiles import plain_profiles, share_of
from berth.predictor.families.slices.workload import SliceWorkload
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile
from berth.predictor.hardware.mig.slices import geometry_of, lookup, slice_of


def predictions(
    workload: SliceWorkload, geometry: Geometry, predictor: SlicePredictor
) -> dict[str, SlicePrediction]:
    """By profile, all plain ones at once: slices with more of everything are never slower.

    Raises UsageError where the workload was measured on another GPU model, a probe names no slice
    of it, or nothing can be predicted at all.
    """
    if lookup(workload.gpu).gpu != geometry.gpu:
        raise UsageError(
            f"{workload.name} was measured on {workload.gpu}, not on {geometry.gpu}",
            hint="measure it on the whole GPU that is to be sliced",
        )
    profiles = plain_profiles(geometry)
    probes = [
        (share_of(geometry, geometry.profile(probe.profile)), number)
        for number, probe in enumerate(workload.probes)
    ]
    made = predictor.predict(
        workload, [share_of(geometry, p) for p in profiles], gpu=geometry.gpu, probes=probes
    )
    return {p.name: one for p, one in zip(profiles, made, strict=True)}


def profiles_of(geometry: Geometry, platforms: Mapping[str, Platform]) -> dict[str, SliceProfile]:
    """By platform: the plain profile that it is of; the largest for a whole GPU of the model."""
    plain = plain_profiles(geometry)
    found: dict[str, SliceProfile] = {}
    for name, platform in platforms.items():
        cut = slice_of(platform)
        if cut is not None and cut[0].gpu == geometry.gpu and cut[1] in plain:
            found[name] = cut[1]
        elif is_whole(geometry, platform):
            found[name] = plain[-1]
    return found


def is_whole(geometry: Geometry, platform: Platform) -> bool:
    """True for a platform that is a whole GPU of this model."""
    found = geometry_of(platform) if platform.kind is PlatformKind.GPU else None
    return found is not None and found.gpu == geometry.gpu
