"""Profiles as Rows: which workload a profile is of, and its counters in a model's order.

A name says what a profile is of: ``APPLICATION[.KERNEL][-SIZE]``, say ``lulesh-30`` or
``srad.reduce-4096``. The size of the workload, where the profile knows it, counts first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.profile import Profile
from berth.predictor.families.relative.rows import Rows

_SIZE = re.compile(r"(.+)[-@](\d[\w.+]*)")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a profile is of."""

    application: str
    kernel: str
    size: str


def identity(profile: Profile) -> Identity:
    """From the profile's name and problem size; a name without parts is its own application."""
    found = _SIZE.fullmatch(profile.name)
    stem, size = (profile.name, "") if found is None else found.groups()
    if profile.workload.size is not None:
        size = f"{profile.workload.size:g}"
    application, _, kernel = stem.partition(".")
    return Identity(application, kernel or application, size)


def values_of(profile: Profile, counters: Iterable[str]) -> dict[str, float]:
    """Those of ``counters`` that the profile has, with their values."""
    found = {name: profile.value(name) for name in counters}
    return {name: value for name, value in found.items() if value is not None}


def row_of(
    profile: Profile,
    counters: Sequence[str],
    platforms: Sequence[str],
    seconds: Mapping[str, float],
) -> Rows:
    """One row: ``profile`` on its own platform, and ``seconds`` on those of ``platforms`` known.

    A counter that the profile lacks is NaN. Raises UsageError where the run did not complete, its
    platform is not among ``platforms`` or none of the counters is there.
    """
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {profile.platform!r} did not complete")
    if profile.platform not in platforms:
        raise UsageError(
            f"{profile.name!r} was measured on {profile.platform!r}, unknown to the bundle",
            hint=f"it knows {', '.join(platforms)}",
        )
    values = [math.nan if (v := profile.value(name)) is None else v for name in counters]
    if not np.isfinite(values).any():
        raise UsageError(
            f"{profile.name!r} has none of the counters that the bundle was trained on",
            hint=f"they are {', '.join(counters)}",
        )
    known = {**seconds, profile.platform: profile.runtime.median_s}
    named = identity(profile)
    return Rows(
        counters=tuple(counters),
        values=np.array([values]),
        platforms=tuple(platforms),
        reference=profile.platform,
        log_seconds=np.log([[known.get(name, math.nan) for name in platforms]]),
        applications=(named.application,),
        kernels=(named.kernel,),
        sizes=(named.size,),
    )
