"""A program at other problem sizes than that of its pilot."""

from __future__ import annotations

import math
from dataclasses import replace

from berth.pilot.profile import Profile
from berth.predictor.core.prediction import Prediction
from berth.predictor.core.sizes import SizeGrowth, growth_to


def at_size(prediction: Prediction, profile: Profile, size: float | None) -> Prediction:
    """Return the prediction for another problem size, by the growth measured in the profile.

    Time, energy and memory are scaled; the speedup stays, because nothing is known of its change.
    """
    sizes = size_growth(profile)
    if size is None or sizes.memory_bytes() is None:
        return prediction
    growth, energy = growth_to(sizes, size), prediction.energy_j
    return replace(
        prediction,
        runtime_s=growth.runtime(prediction.runtime_s, prediction.launch_s),
        energy_j=None if energy is None else energy.times(growth.time),
        memory=growth.memory(prediction.memory),
    )


def size_growth(profile: Profile) -> SizeGrowth:
    """Return how run time and memory grow with the problem size, fitted to the profile's runs."""
    return SizeGrowth.fit(
        _size_points(profile),
        size=profile.workload.size,
        peak_memory_bytes=profile.peak_memory_bytes,
        bounds=_bounds(profile),
        gpu_peak_bytes=profile.value("gpu_memory_bytes") or None,
    )


def size_doubt(profile: Profile, size: float | None) -> str | None:
    """Return a warning about a prediction at problem size ``size``; None: no warning.

    Always None for profiles of runs on several nodes, which have size checks of their own.
    """
    return None if profile.node_scaling else size_growth(profile).doubt(size)


def _bounds(profile: Profile) -> set[float | None]:
    """Return the problem sizes whose memory peak is only an upper bound.

    None in the set stands for the run without a stated size.
    """
    own = {profile.workload.size} if profile.peak_memory_is_bound else set()
    return own | {point.size for point in profile.sizes if point.peak_memory_is_bound}


def _size_points(profile: Profile) -> list[tuple[float, float, float]]:
    """Return (problem size, run time in seconds, peak memory in bytes) of the profile's runs."""
    points = [(p.size, p.runtime_s, p.peak_memory_bytes) for p in profile.sizes]
    own, peak = profile.workload.size, profile.peak_memory_bytes
    if own and peak and profile.runtime and not any(math.isclose(own, p[0]) for p in points):
        points.append((own, profile.runtime.median_s, peak))
    return points
