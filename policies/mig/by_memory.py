"""Which slice by memory alone, before a workload ever ran on one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.units import format_bytes
from berth.predictor.core.prediction import Interval
from berth.predictor.families.slices.physics import ShareModel, log_slowdown
from berth.predictor.families.slices.profiles import share_of
from berth.predictor.footprint.footprint import Fits, fits
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile

THESIS_LIMITS_MB = {"1g.5gb": 5000.0, "2g.10gb": 10000.0, "3g.20gb": 20000.0, "7g.40gb": 40000.0}
"""Equation 4.2's profiles with their upper limits; 4g.20gb is not among them."""
_BY_UTILISATION = ((0.25, "1g.5gb"), (0.5, "2g.10gb"), (0.75, "3g.20gb"))


def thesis_by_memory(memory_mb: float) -> str | None:
    """Equation 4.2: strict on both sides, so that exactly 5, 10, 20 or 40 GB belong nowhere."""
    below = 0.0
    for profile, limit in THESIS_LIMITS_MB.items():
        if below < memory_mb < limit:
            return profile
        below = limit
    return None


def thesis_by_utilisation(utilisation: float) -> str:
    """Section 3.4.4: below 25 % seven slices of 5 GB, from 25 to 50 % three of 10 GB.

    For the rest the thesis says "likewise"; read here as two of 20 GB up to 75 %, else the whole.
    """
    for limit, profile in _BY_UTILISATION:
        if utilisation < limit:
            return profile
    return "7g.40gb"


NO_FASTER = 1.1
"""A larger slice that is faster by less than this is said to be no faster."""
SUM = 1.0
"""Sharpness: kernels wait for launches, one after the other."""


@dataclass(frozen=True, slots=True)
class ModelSlice:
    """One profile for one model."""

    profile: SliceProfile
    fits: Fits
    slowdown: float
    """t_slice / t_whole; a prior."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The answer for one GPU model."""

    gpu: str
    need: Interval
    slices: tuple[ModelSlice, ...]
    """Plain profiles, small before large."""
    chosen: ModelSlice | None
    """See the module; None: not even the whole GPU holds the upper end of the need."""
    reason: str
    by_memory: str | None
    """Equation 4.2, of the middle; A100 40 GB only."""
    by_utilisation: str | None
    """Section 3.4.4, of the predicted part of the time with a kernel running; likewise."""


def profile_for(
    need: Interval, geometry: Geometry, waiting: float, shares: ShareModel
) -> ModelProfile:
    """The profile of ``geometry`` for a model that needs so much memory.

    ``waiting``: part of the whole GPU's time that launches bound, of 1.
    """
    plain = sorted(
        (p for p in geometry.profiles if p.is_plain),
        key=lambda p: (p.memory_slices, p.compute_slices, p.name),
    )
    found = tuple(
        ModelSlice(p, fits(need, p.memory_bytes), _slowdown(geometry, p, waiting, shares))
        for p in plain
    )
    chosen = _smallest(found)
    of_thesis = set(THESIS_LIMITS_MB) <= set(geometry.by_name)
    return ModelProfile(
        gpu=geometry.gpu,
        need=need,
        slices=found,
        chosen=chosen,
        reason=_reason(need, found, chosen, waiting),
        by_memory=thesis_by_memory(need.mid / 1e6) if of_thesis else None,
        by_utilisation=thesis_by_utilisation(1 - waiting) if of_thesis else None,
    )


def _smallest(found: tuple[ModelSlice, ...]) -> ModelSlice | None:
    enough = [one for one in found if one.fits is Fits.YES]
    least = [one for one in enough if one.profile.memory_slices == enough[0].profile.memory_slices]
    return max(least, key=lambda one: one.profile.max_instances / one.slowdown, default=None)


def _slowdown(
    geometry: Geometry, profile: SliceProfile, waiting: float, shares: ShareModel
) -> float:
    still = min(max(waiting, 1e-3), 1 - 1e-3)
    latent = np.array([math.log((1 - still) / still)])
    effective = shares.effective(share_of(geometry, profile))
    return float(np.exp(log_slowdown(latent, effective, SUM)[0]))


def _reason(
    need: Interval, found: tuple[ModelSlice, ...], chosen: ModelSlice | None, waiting: float
) -> str:
    words = f"{format_bytes(need.mid)} ({format_bytes(need.low)} to {format_bytes(need.high)})"
    if chosen is None:
        most = found[-1]
        may = "may not be" if most.fits is Fits.MAY else "is not"
        return f"none: {words}, for which {format_bytes(most.profile.memory_bytes)} {may} enough"
    said = f"{chosen.profile.name}: {words} of {format_bytes(chosen.profile.memory_bytes)}"
    smaller = [one for one in found if one.fits is Fits.MAY]
    if smaller:
        said += f"; {smaller[-1].profile.name} may be too small"
    held = chosen.profile.memory_slices
    larger = next(
        (o for o in found if o.slowdown < chosen.slowdown and o.profile.memory_slices > held), None
    )
    if larger is None:
        return said
    faster = chosen.slowdown / larger.slowdown
    if faster < NO_FASTER:
        return (
            f"{said}; {larger.profile.name} would run no faster: for {waiting:.0%} of the time on "
            "the whole GPU launches bound it"
        )
    said += f"; {larger.profile.name} would run {faster:.1f} times as fast"
    if larger is found[-1]:
        return said
    return f"{said}, the whole GPU {chosen.slowdown / found[-1].slowdown:.1f} times"
