"""MIG profile for a workload that never ran on a slice, chosen by its GPU memory alone.

A model graph gets the smallest profile whose usable memory holds the upper end of the predicted
need (equation 4.2 of the thesis below, with an interval). Among profiles with equal memory
(1g.10gb,
2g.10gb), the one with the most work per second on a GPU full of them is chosen. The slowdown on a
slice comes from the effective shares that ``predictor.families.slices`` learned and from the part
of the whole GPU's time that is bound by kernel launches, which a smaller slice does not lengthen.
That part is itself predicted, so the slowdown is not calibrated.

Two rules of Panner Selvam's thesis on deep-learning performance serve as baselines: equation 4.2
chooses by predicted memory, section 3.4.4 by the utilisation of the whole GPU. Both are for an A100
40 GB.
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
"""Upper memory limit in MB of each profile in the thesis's equation 4.2, which omits 4g.20gb."""
_BY_UTILISATION = ((0.25, "1g.5gb"), (0.5, "2g.10gb"), (0.75, "3g.20gb"))


def thesis_by_memory(memory_mb: float) -> str | None:
    """Return the MIG profile by the thesis's equation 4.2 for a need in MB; None: no profile
    applies.

    Both limits of a range are exclusive in the equation, so exactly 5, 10, 20 or 40 GB give None.
    """
    below = 0.0
    for profile, limit in THESIS_LIMITS_MB.items():
        if below < memory_mb < limit:
            return profile
        below = limit
    return None


def thesis_by_utilisation(utilisation: float) -> str:
    """Return the MIG profile by the thesis's section 3.4.4 for the whole GPU's utilisation (0 to
    1).

    Below 25 % it is 1g.5gb, from 25 to 50 % 2g.10gb. For more, the thesis says "likewise", read
    here
    as 3g.20gb up to 75 % and the whole GPU above.
    """
    for limit, profile in _BY_UTILISATION:
        if utilisation < limit:
            return profile
    return "7g.40gb"


NO_FASTER = 1.1
"""Least speedup of a larger slice over the chosen one that is reported as faster."""
SUM = 1.0
"""Exponent in ``log_slowdown``: 1 adds launch and kernel times, which do not overlap here."""


@dataclass(frozen=True, slots=True)
class ModelSlice:
    """A MIG profile with the fit and the slowdown that are predicted for one model."""

    profile: SliceProfile
    fits: Fits
    slowdown: float
    """Time on the slice / time on the whole GPU; not calibrated on measurements."""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The MIG profile chosen for one model on one GPU model, with all candidates."""

    gpu: str
    need: Interval
    slices: tuple[ModelSlice, ...]
    """The profiles without media variants, in ascending order of size."""
    chosen: ModelSlice | None
    """The chosen slice; None: the upper end of ``need`` exceeds even the whole GPU's memory."""
    reason: str
    by_memory: str | None
    """Profile by the thesis's equation 4.2 for the need's central value; A100 40 GB only."""
    by_utilisation: str | None
    """Profile by the thesis's section 3.4.4 for the predicted utilisation; A100 40 GB only."""


def profile_for(
    need: Interval, geometry: Geometry, waiting: float, shares: ShareModel
) -> ModelProfile:
    """Return the MIG profile of ``geometry`` for a model whose GPU memory is ``need`` bytes.

    ``waiting``: the part of the time on the whole GPU that kernel launches bound, from 0 to 1.
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
