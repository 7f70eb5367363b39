"""The rows that a model of programs is fitted on: features of profiles, and times on a target.

They come from labelled examples, or from pairs of profiles: one workload piloted on a reference and
run on a new platform.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.families.program.features import Reference, feature_row
from berth.predictor.families.program.roofline import times
from berth.predictor.families.program.work import ThreadScaling, work_of
from berth.predictor.hardware.ceilings import Ceilings, Point

_NAME = re.compile(r"([A-Za-z0-9]\w*)[-+.@](\d+)")


class Labelled(Protocol):
    """One workload at one size: its profile, and what other machines took for it."""

    @property
    def kernel(self) -> str:
        """Return the group that its rows are split by."""
        ...

    @property
    def profile(self) -> Profile:
        """Return the profile measured on the reference."""
        ...

    @property
    def seconds(self) -> Mapping[str, float]:
        """Return the seconds by labelled platform."""
        ...


@dataclass(frozen=True, slots=True)
class Columns:
    """What a model is fitted on: one reference, one target, one row an example."""

    features: Floats
    fixed_s: Floats
    """Seconds of the target's roofline: launches and atomics."""
    parallel_s: Floats
    """Seconds of the target's roofline: the rest."""
    reductions: Floats
    """Results that the target must fetch."""
    log_efficiency: Floats
    """Reference time over its own roofline."""
    log_reference: Floats
    log_time: Floats
    """Measured on the target."""
    kernels: tuple[str, ...]

    def take(self, index: Floats | Sequence[int]) -> Columns:
        """Return some of the rows."""
        chosen = np.asarray(index, dtype=np.intp)
        columns = {
            column.name: getattr(self, column.name)[chosen]
            for column in fields(self)
            if column.name != "kernels"
        }
        return Columns(**columns, kernels=tuple(self.kernels[i] for i in chosen))

    def __len__(self) -> int:
        return len(self.kernels)


def read_profiles(path: Path) -> tuple[Profile, ...]:
    """Return profiles from a JSON-lines file. Raises DocumentError naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(
            path, "does not exist", hint="`berth pilot campaign` makes it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(path, f"cannot be read: {error}") from None
    profiles = tuple(
        parse_json(line, Profile, source=f"{path}: line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    )
    if not profiles:
        raise DocumentError(path, "holds no profiles")
    return profiles


def kernel_and_size(name: str) -> tuple[str, int] | None:
    """Return ``("Stream_TRIAD", 8388608)`` from ``Stream_TRIAD-8388608``; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match.group(1), int(match.group(2)))


class Row(NamedTuple):
    """One run whose time on the target is known, too."""

    profile: Profile
    ceilings: Ceilings
    """The target's first."""
    reference_s: float
    target_s: float
    kernel: str


def stacked(rows: Sequence[Row]) -> Columns:
    """Return feature rows and times of ``rows``, in their order."""
    features, parts, efficiencies = [], [], []
    for row in rows:
        home = row.ceilings.points[1].platform
        work, scaling = work_of(row.profile), ThreadScaling.of(row.profile, home)
        roof = times(work, row.ceilings, scaling)
        features.append(feature_row(work, scaling, Reference(row.reference_s, 1), roof, 0))
        parts.append((roof.fixed[0], roof.parallel[0], roof.reductions[0]))
        efficiencies.append(math.log(row.reference_s / roof.total[1]))
    fixed, parallel, reductions = np.array(parts).T
    return Columns(
        np.array(features),
        fixed,
        parallel,
        reductions,
        np.array(efficiencies),
        np.log([row.reference_s for row in rows]),
        np.log([row.target_s for row in rows]),
        tuple(row.kernel for row in rows),
    )


def columns(
    examples: Sequence[Labelled],
    target: Platform,
    reference: Platform,
    *,
    reference_is_label: bool = False,
) -> Columns:
    """Return feature rows for ``target`` (at one core or GPU) as seen from ``reference``.

    With ``reference_is_label`` the reference time is the label of that platform rather than the
    profile's own runtime (prediction from Quartz to V100, say).
    """
    table = Ceilings.of([Point(target, 1), Point(reference, 1)])
    rows = []
    for example in examples:
        profile = example.profile
        runtime = profile.runtime
        if runtime is None:
            raise UsageError(f"profile {profile.name!r} has no runtime")
        seconds = example.seconds[reference.name] if reference_is_label else runtime.median_s
        rows.append(Row(profile, table, seconds, example.seconds[target.name], example.kernel))
    return stacked(rows)


@dataclass(frozen=True, slots=True)
class Pair:
    """The counters of ``here`` explain the time of ``there``."""

    here: Profile
    there: Profile

    @property
    def kernel(self) -> str:
        """Return the name that the workload is a size of."""
        parsed = kernel_and_size(self.here.name)
        return self.here.name if parsed is None else parsed[0]


def pairs_of(
    profiles: Sequence[Profile], platform: Platform, platforms: Mapping[str, Platform]
) -> tuple[Pair, ...]:
    """Return profiles on ``platform`` with those of the same name or workload elsewhere.

    Raises UsageError where none pairs, a run did not complete, a workload is there twice, or the
    reference's platform is not known.
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
        pairs.append(Pair(partners[0], profile))
    names = [pair.here.name for pair in pairs]
    if double := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{double[0]!r} was run on {platform.name!r} twice")
    return tuple(pairs)


def units_of(pairs: Sequence[Pair], platform: Platform) -> int:
    """Return cores (CPU) or GPUs of the runs. Raises UsageError where they differ."""
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
    """Return the rows that a prior is fitted on, one for each pair."""
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


def _check_complete(profile: Profile) -> None:
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(f"the run of {profile.name!r} on {profile.platform!r} did not complete")
