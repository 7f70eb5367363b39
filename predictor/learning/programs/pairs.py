"""Pairs of profiles: one workload piloted on a reference, and run on a new platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.hardware.ceilings import Ceilings, Point
from berth.predictor.learning.programs.columns import Columns, Row, kernel_and_size, stacked


@dataclass(frozen=True, slots=True)
class Pair:
    """The counters of ``here`` explain the time of ``there``."""

    here: Profile
    there: Profile

    @property
    def kernel(self) -> str:
        """What the workload is a size of."""
        found = kernel_and_size(self.here.name)
        return self.here.name if found is None else found[0]


def pairs_of(
    profiles: Sequence[Profile], platform: Platform, platforms: Mapping[str, Platform]
) -> tuple[Pair, ...]:
    """Profiles on ``platform`` with those of the same name or workload elsewhere.

    Raises UsageError where none pairs, a run did not complete, a workload is there twice, or the
    reference's platform is not known.
    """
    there = [p for p in profiles if p.platform == platform.name]
    elsewhere = [p for p in profiles if p.platform != platform.name]
    if not there:
        raise UsageError(
            f"no profile was measured on {platform.name!r}",
            hint="`berth pilot run --platform NAME` says where a profile is from",
        )
    found = []
    for profile in there:
        _check(profile)
        partners = [p for p in elsewhere if p.name == profile.name]
        partners = partners or [p for p in elsewhere if p.workload == profile.workload]
        if not partners:
            raise UsageError(
                f"{profile.name!r} was measured on {platform.name!r} only",
                hint="give its profile on the reference platform too, of the same name or command",
            )
        if len(partners) > 1:
            raise UsageError(f"{profile.name!r} has {len(partners)} profiles elsewhere, not one")
        _check(partners[0])
        if partners[0].platform not in platforms:
            raise UsageError(
                f"{partners[0].name!r} was measured on {partners[0].platform!r}, which is not a "
                "known platform",
                hint="`berth pilot bench` there, then `berth site platform add`",
            )
        found.append(Pair(partners[0], profile))
    names = [pair.here.name for pair in found]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{double[0]!r} was run on {platform.name!r} twice")
    return tuple(found)


def units_of(pairs: Sequence[Pair], platform: Platform) -> int:
    """Cores (CPU) or GPUs of the runs. Raises UsageError where they differ."""
    used = {
        max(1, p.there.runs_on.gpus)
        if platform.is_gpu
        else p.there.runs_on.threads * p.there.runs_on.ranks
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
    pairs: Sequence[Pair], platform: Platform, platforms: Mapping[str, Platform]
) -> Columns:
    """What a prior is fitted on, one row a pair."""
    units = units_of(pairs, platform)
    rows = []
    for pair in pairs:
        runs_on, here_s = pair.here.runs_on, _seconds(pair.here)
        anchor = Point(platforms[pair.here.platform], runs_on.threads * runs_on.ranks)
        ceilings = Ceilings.of([Point(platform, units), anchor])
        rows.append(Row(pair.here, ceilings, here_s, _seconds(pair.there), pair.kernel))
    return stacked(rows)


def _seconds(profile: Profile) -> float:
    if profile.runtime is None:
        raise UsageError(f"profile {profile.name!r} has no runtime")
    return profile.runtime.median_s


def _check(profile: Profile) -> None:
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {profile.platform!r} did not complete")
