"""Training rows of the program model: features of profiles, and run times on a target platform.

Rows come from pairs of profiles: one workload measured by a pilot run on a reference and run on a
new platform.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.features import feature_row
from berth.predictor.families.program.roofline import thread_scaling, times
from berth.predictor.families.program.work import work_of
from berth.predictor.hardware.ceilings import Allocation, Ceilings

_NAME = re.compile(r"([A-Za-z0-9]\w*)[-+.@](\d+)")


@dataclass(frozen=True, slots=True)
class LabelRows:
    """Training rows for one reference and one target platform; each array has one entry per row."""

    features: Floats
    """[rows, features] features of the profiles."""
    fixed_s: Floats
    """Seconds of the target's roofline that do not scale: kernel launches and atomics."""
    parallel_s: Floats
    """Seconds of the target's roofline without ``fixed_s``."""
    reductions: Floats
    """Number of reduction results that the target must fetch."""
    log_efficiency: Floats
    """Natural log of the reference time over the reference's roofline time."""
    log_reference: Floats
    """Natural log of the reference time in seconds."""
    log_time: Floats
    """Natural log of the time measured on the target in seconds."""
    kernels: tuple[str, ...]

    def take(self, index: Floats | Sequence[int]) -> LabelRows:
        """Return the training rows with these indices."""
        chosen = np.asarray(index, dtype=np.intp)
        columns = {
            column.name: getattr(self, column.name)[chosen]
            for column in fields(self)
            if column.name != "kernels"
        }
        return LabelRows(**columns, kernels=tuple(self.kernels[i] for i in chosen))

    def __len__(self) -> int:
        return len(self.kernels)


def kernel_and_size(name: str) -> tuple[str, int] | None:
    """Return ``("Stream_TRIAD", 8388608)`` for ``Stream_TRIAD-8388608``; None where no size is in
    the name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match.group(1), int(match.group(2)))


class LabelRow(NamedTuple):
    """One profile with its run times on the reference and on the target."""

    profile: Profile
    ceilings: Ceilings
    """Roofline ceilings of the target, then of the reference."""
    reference_s: float
    target_s: float
    kernel: str


def stacked(rows: Sequence[LabelRow]) -> LabelRows:
    """Return the features and times of the training rows as arrays, in the order of ``rows``."""
    features, parts, efficiencies = [], [], []
    for row in rows:
        home = row.ceilings.points[1].platform
        work = work_of(row.profile)
        scaling = thread_scaling(row.profile, work, home)
        roof = times(work, row.ceilings, scaling)
        features.append(feature_row(work, scaling, row.reference_s, roof, (1, 0)))
        parts.append((roof.fixed[0], roof.parallel[0], roof.reductions[0]))
        efficiencies.append(math.log(row.reference_s / roof.total[1]))
    fixed, parallel, reductions = np.array(parts).T
    return LabelRows(
        np.array(features),
        fixed,
        parallel,
        reductions,
        np.array(efficiencies),
        np.log([row.reference_s for row in rows]),
        np.log([row.target_s for row in rows]),
        tuple(row.kernel for row in rows),
    )


@dataclass(frozen=True, slots=True)
class ProfilePair:
    """Two profiles of one workload: ``reference`` gives the counters, ``target`` the run time
    to predict."""

    reference: Profile
    target: Profile

    @property
    def kernel(self) -> str:
        """Return the name of the workload without its size."""
        parsed = kernel_and_size(self.reference.name)
        return self.reference.name if parsed is None else parsed[0]

    @property
    def target_s(self) -> float:
        """Return the run time to predict, in seconds."""
        return _seconds(self.target)


def pairs_of(
    profiles: Sequence[Profile], platform: Platform, platforms: Mapping[str, Platform]
) -> tuple[ProfilePair, ...]:
    """Return each profile measured on ``platform`` with the profile of the same workload on another
    platform.

    They pair by name, else by workload. Raises UsageError where there is no such pair, a run did
    not complete, a workload occurs twice, or the other profile's platform is unknown.
    """
    on_platform = [p for p in profiles if p.platform == platform.name]
    elsewhere = [p for p in profiles if p.platform != platform.name]
    if not on_platform:
        raise UsageError(
            f"no profile was measured on {platform.name!r}",
            hint="`berth pilot run --platform NAME` says where a profile is from",
        )
    pairs = []
    for profile in on_platform:
        _check_complete(profile)
        partners = [p for p in elsewhere if p.name == profile.name]
        partners = partners or [p for p in elsewhere if p.workload == profile.workload]
        if not partners:
            raise UsageError(
                f"{profile.name!r} was measured on {platform.name!r} only",
                hint="give its profile on the reference platform too, of the same name or command",
            )
        if len(partners) > 1:
            raise UsageError(f"{profile.name!r} has {len(partners)} profiles elsewhere, not one")
        _check_complete(partners[0])
        if partners[0].platform not in platforms:
            raise UsageError(
                f"{partners[0].name!r} was measured on {partners[0].platform!r}, which is not a "
                "known platform",
                hint="`berth pilot bench` there, then `berth site platform add`",
            )
        pairs.append(ProfilePair(partners[0], profile))
    names = [pair.reference.name for pair in pairs]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{double[0]!r} was run on {platform.name!r} twice")
    return tuple(pairs)


def units_of(pairs: Sequence[ProfilePair], platform: Platform) -> int:
    """Return the number of cores (CPU platform) or GPUs that the paired runs on ``platform`` used.

    Raises UsageError where the runs differ in this number.
    """
    used = {
        max(1, p.target.runs_on.gpus)
        if platform.is_gpu
        else p.target.runs_on.threads * p.target.runs_on.ranks
        for p in pairs
    }
    if len(used) != 1:
        raise UsageError(
            f"the runs on {platform.name!r} used {', '.join(map(str, sorted(used)))} "
            f"{'GPUs' if platform.is_gpu else 'cores'}",
            hint="adapt with runs of one count; others are scaled from it",
        )
    return used.pop()


def pair_columns(
    pairs: Sequence[ProfilePair], platform: Platform, platforms: Mapping[str, Platform]
) -> LabelRows:
    """Return training rows, one per pair of profiles, for calibrating the roofline of
    ``platform``."""
    units = units_of(pairs, platform)
    rows = []
    for pair in pairs:
        runs_on, reference_s = pair.reference.runs_on, _seconds(pair.reference)
        anchor = Allocation(platforms[pair.reference.platform], runs_on.threads * runs_on.ranks)
        ceilings = Ceilings.of([Allocation(platform, units), anchor])
        rows.append(
            LabelRow(pair.reference, ceilings, reference_s, _seconds(pair.target), pair.kernel)
        )
    return stacked(rows)


def _seconds(profile: Profile) -> float:
    """Return the median run time in seconds. Raises UsageError for a profile without a run time."""
    if profile.runtime is None:
        raise UsageError(f"profile {profile.name!r} has no runtime")
    return profile.runtime.median_s


def _check_complete(profile: Profile) -> None:
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {profile.platform!r} did not complete")
