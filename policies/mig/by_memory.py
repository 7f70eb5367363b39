"""Which slice by memory alone, before a workload ever ran on one: a model graph's, and the
thesis's.

A model graph gets the smallest profile whose usable memory holds the upper end of its need (the
thesis's equation 4.2 with an interval); of those with as much memory (1g.10gb, 2g.10gb) the one
that a GPU full of them does most work with. Its slow-down against larger ones comes from the
effective shares that ``predictor.families.slices`` learnt and from the part of the time that
launches bound on the whole GPU, which no slice stretches; that part is a prediction, so the
slow-down is a prior.

The two rules of Panner Selvam's thesis on deep-learning performance stand beside it as baselines:
equation 4.2 chooses by predicted memory, section 3.4.4 by the utilisation of the whole GPU. Both
are for an A100 40 GB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berth.pilot.units import format_bytes
from berth.predictor.core.prediction import Interval
from berth.predictor.families.slices.physics import ShareModel, log_slowdown, share_of
from berth.predictor.footprint.footprint import Fits, fits
from berth.predictor.hardware.mig.geometry import Geometry, SliceProfile

THESIS_LIMITS_MB = {"1g.5gb": 5000.0, "2g.10gb": 10000.0, "3g.20gb": 20000.0, "7g.40gb": 40000.0}
"""The profiles of equation 4.2 with their upper limits; 4g.20gb is not among them."""
_BY_UTILISATION = ((0.25, "1g.5gb"), (0.5, "2g.10gb"), (0.75, "3g.20gb"))


def thesis_by_memory(memory_mb: float) -> str | None:
    """Return the profile by equation 4.2; None where it names none.

    It is strict on both sides, so that exactly 5, 10, 20 or 40 GB belong nowhere.
    """
    below = 0.0
    for profile, limit in THESIS_LIMITS_MB.items():
        if below < memory_mb < limit:
            return profile
        below = limit
    return None


def thesis_by_utilisation(utilisation: float) -> str:
    """Return the profile by section 3.4.4: below 25 % 1g.5gb, from 25 to 50 % 2g.10gb.

    For the rest the thesis says "likewise"; read here as 3g.20gb up to 75 %, else the whole GPU.
    """
    for limit, profile in _BY_UTILISATION:
        if utilisation < limit:
            return profile
    return "7g.40gb"


NO_FASTER = 1.1
"""A larger slice whose speedup is below this is called no faster."""
SUM = 1.0
"""Sharpness of the sum of times: kernels wait for launches, one after the other."""


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
    """The slice by the rules of this module; None: not even the whole GPU holds the need's upper
    end."""
    reason: str
    by_memory: str | None
    """Equation 4.2 for the middle of the need; A100 40 GB only."""
    by_utilisation: str | None
    """Section 3.4.4 for the predicted part of the time with a kernel running; A100 40 GB only."""


def profile_for(
    need: Interval, geometry: Geometry, waiting: float, shares: ShareModel
) -> ModelProfile:
    """Return the profile of ``geometry`` for a model that needs so much GPU memory.

    ``waiting``: the part of the whole GPU's time that launches bound, from 0 to 1.
    """
    plain = sorted(
        (p for p in geometry.profiles if p.is_plain),
        key=lambda p: (p.memory_slices, p.compute_slices, p.name),
    )
    by_size = tuple(
        ModelSlice(p, fits(need, p.memory_bytes), _slowdown(geometry, p, waiting, shares))
        for p in plain
    )
    chosen = _smallest(by_size)
    of_thesis = set(THESIS_LIMITS_MB) <= set(geometry.by_name)
    return ModelProfile(
        gpu=geometry.gpu,
        need=need,
        slices=by_size,
        chosen=chosen,
        reason=_reason(need, by_size, chosen, waiting),
        by_memory=thesis_by_memory(need.mid / 1e6) if of_thesis else None,
        by_utilisation=thesis_by_utilisation(1 - waiting) if of_thesis else None,
    )


def _smallest(slices: tuple[ModelSlice, ...]) -> ModelSlice | None:
    fitting = [slice_ for slice_ in slices if slice_.fits is Fits.YES]
    smallest = [
        slice_
        for slice_ in fitting
        if slice_.profile.memory_slices == fitting[0].profile.memory_slices
    ]
    return max(
        smallest, key=lambda slice_: slice_.profile.max_instances / slice_.slowdown, default=None
    )


def _slowdown(
    geometry: Geometry, profile: SliceProfile, waiting: float, shares: ShareModel
) -> float:
    still = min(max(waiting, 1e-3), 1 - 1e-3)
    latent = np.array([math.log((1 - still) / still)])
    effective = shares.effective(share_of(geometry, profile))
    return float(np.exp(log_slowdown(latent, effective, SUM)[0]))


def _reason(
    need: Interval, slices: tuple[ModelSlice, ...], chosen: ModelSlice | None, waiting: float
) -> str:
    words = f"{format_bytes(need.mid)} ({format_bytes(need.low)} to {format_bytes(need.high)})"
    if chosen is None:
        most = slices[-1]
        may = "may not be" if most.fits is Fits.MAY else "is not"
        return f"none: {words}, for which {format_bytes(most.profile.memory_bytes)} {may} enough"
    sentence = f"{chosen.profile.name}: {words} of {format_bytes(chosen.profile.memory_bytes)}"
    smaller = [slice_ for slice_ in slices if slice_.fits is Fits.MAY]
    if smaller:
        sentence += f"; {smaller[-1].profile.name} may be too small"
    held = chosen.profile.memory_slices
    larger = next(
        (
            slice_
            for slice_ in slices
            if slice_.slowdown < chosen.slowdown and slice_.profile.memory_slices > held
        ),
        None,
    )
    if larger is None:
        return sentence
    faster = chosen.slowdown / larger.slowdown
    if faster < NO_FASTER:
        return (
            f"{sentence}; {larger.profile.name} would run no faster: for {waiting:.0%} of the time "
            "on the whole GPU launches bound it"
        )
    sentence += f"; {larger.profile.name} would run {faster:.1f} times as fast"
    if larger is slices[-1]:
        return sentence
    return f"{sentence}, the whole GPU {chosen.slowdown / slices[-1].slowdown:.1f} times"
