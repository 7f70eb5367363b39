"""Training rows from a site's own measurements: profiles of the same workloads on several
platforms.

Input paths are files or folders of profiles (``.json``, ``.jsonl``). Counters are taken from the
profiles of one platform, the reference; from all other platforms only the run time is used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from berth.pilot.documents import parse_json_lines, read_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, Target
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows, identity
from berth.predictor.hardware import platforms as known

_MOST_FILES = 20_000
_SHORTEST_S, _LONGEST_S = 1e-9, 1e9
"""Bounds of a plausible run time in seconds."""
_COUNTED_IN = 0.5
"""Least share of the training programs that must have a counter."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Training rows read from files, with the counters and workloads that were left out."""

    rows: Rows
    constant: tuple[str, ...]
    """Counters that have one value in all rows and were left out."""
    values: dict[str, float]
    """Values of the constant counters that most rows have."""
    unpaired: tuple[str, ...]
    """Workloads that were timed on other platforms than the reference only and were left out."""


def read_measurements(paths: Sequence[Path], reference: str | None = None) -> Measurements:
    """Return training rows from all profiles in ``paths``.

    ``reference``: platform whose counters are used; None: the platform with the most profiles.

    Raises UsageError or DocumentError: nothing to read, a run that did not complete, a workload
    timed twice on a platform, a time below a nanosecond or above thirty years, a reference without
    profiles or not unique, counters that are all constant.
    """
    read = _read(paths)
    for source, profile in read:
        _check(source, profile)
    chosen = _reference([profile for _, profile in read], reference)
    base = {profile.name: profile for _, profile in read if profile.platform == chosen}
    seconds: dict[tuple[str, str], float] = {}
    for source, profile in read:
        _add(seconds, _workload(profile, base), profile.platform, _median_s(profile), source)
    names = sorted(base)
    others = sorted({platform for _, platform in seconds} - {chosen})
    counters = sorted({str(c) for p in base.values() for c in p.counters if p.value(c) is not None})
    values = np.array(
        [[_value(base[name], counter) for counter in counters] for name in names], dtype=np.float64
    ).reshape(len(names), len(counters))
    varies = _varies(values)
    varying = [c for c, own in zip(counters, varies, strict=True) if own]
    if not varying:
        raise UsageError(
            "every counter has one value in all profiles"
            if counters
            else "no profile has counters",
            hint="nothing tells the workloads apart; measure others or count more",
        )
    identities = [identity(base[name]) for name in names]
    platforms = (chosen, *others)
    rows = Rows(
        counters=tuple(varying),
        values=values[:, varies],
        platforms=platforms,
        reference=chosen,
        log_seconds=np.log([[seconds.get((n, p), math.nan) for p in platforms] for n in names]),
        applications=tuple(named.application for named in identities),
        kernels=tuple(named.kernel for named in identities),
        sizes=tuple(named.size for named in identities),
    )
    return Measurements(
        rows,
        tuple(c for c in counters if c not in varying),
        constant_counters(tuple(c for c in counters if c not in varying), values[:, ~varies]),
        tuple(sorted({name for name, _ in seconds} - set(names))),
    )


def _read(paths: Sequence[Path]) -> list[tuple[str, Profile]]:
    """Return profiles, each with the file (and line) where it was read."""
    profiles: list[tuple[str, Profile]] = []
    for file in (file for path in paths for file in _files(path)):
        if file.suffix == ".jsonl":
            lines = parse_json_lines(file.read_bytes(), Profile, source=file)
            profiles.extend(lines.items())
        else:
            profiles.append((str(file), read_json(file, Profile)))
    if not profiles:
        raise UsageError(
            f"there is no profile in {', '.join(map(str, paths))}",
            hint="`berth pilot run -o FOLDER/NAME.json` writes one; see docs/published.md",
        )
    return profiles


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise DocumentError(path, "does not exist")
        return [path]
    files = sorted(f for f in path.rglob("*") if f.suffix in {".json", ".jsonl"})
    if len(files) > _MOST_FILES:
        raise DocumentError(path, f"holds more than {_MOST_FILES} files")
    return files


def _check(source: str, profile: Profile) -> None:
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(
            f"{source}: the run of {profile.name!r} on {profile.platform!r} did not complete"
        )


def _reference(profiles: Sequence[Profile], asked: str | None) -> str:
    counts = Counter(p.platform for p in profiles if p.counters)
    if asked is not None:
        if asked not in counts:
            raise UsageError(
                f"no profile with counters was measured on the reference {asked!r}",
                hint=f"there are some of {', '.join(sorted(counts)) or 'no platform'}",
            )
        return asked
    if not counts:
        raise UsageError("no profile has counters")
    most = max(counts.values())
    first = sorted(name for name, count in counts.items() if count == most)
    if len(first) > 1:
        raise UsageError(
            f"{first[0]} and {first[1]} have as many profiles with counters",
            hint="say with --reference which one new programs will be piloted on",
        )
    return first[0]


def _workload(profile: Profile, base: dict[str, Profile]) -> str:
    """Return the name of the reference's profile with the same name, else with the same command and
    size.

    Without such a profile, or with several, the profile's own name is returned.
    """
    if profile.name in base:
        return profile.name
    same = [name for name, other in base.items() if other.workload == profile.workload]
    return same[0] if len(same) == 1 else profile.name


def _add(
    seconds: dict[tuple[str, str], float], name: str, platform: str, taken: float, source: str
) -> None:
    if (name, platform) in seconds:
        raise UsageError(f"{source}: {name!r} was already timed on {platform!r}")
    if not _SHORTEST_S <= taken <= _LONGEST_S:
        raise UsageError(
            f"{source}: {taken:g} s is no time that {name!r} takes",
            hint="times are in seconds, from a nanosecond to thirty years",
        )
    seconds[name, platform] = taken


def _median_s(profile: Profile) -> float:
    return math.nan if profile.runtime is None else profile.runtime.median_s


def _value(profile: Profile, counter: str) -> float:
    value = profile.value(counter)
    return math.nan if value is None else value


def _varies(values: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return np.asarray(high > low)


def constant_counters(names: tuple[str, ...], values: Floats) -> dict[str, float]:
    """Return the value by name of the counters that have one value in all rows where they are
    known.

    ``values``: rows x counters, NaN: missing. Counters known in fewer than half of the rows are
    left out.
    """
    constants = {}
    for name, column in zip(names, values.T, strict=True):
        known = column[np.isfinite(column)]
        if len(known) and len(known) >= _COUNTED_IN * len(column) and (known == known[0]).all():
            constants[name] = float(known[0])
    return constants


@dataclass(frozen=True, slots=True)
class SiteInput:
    """Rows, what they are called, what kind of hardware each platform is, and constants."""

    rows: Rows
    title: str
    kinds: dict[str, str]
    constants: dict[str, float]
    """Counters with one value in all programs, which the rows lack."""


def site_input(
    paths: Sequence[Path], reference: str | None, folder: Path | None
) -> SiteInput | None:
    """Read what the profiles in ``paths`` say; None where there are no paths.

    Says on standard error what was left out. Raises UsageError or DocumentError.
    """
    if not paths:
        return None
    platforms = known.load(folder)
    measurements = read_measurements(paths, reference)
    if measurements.constant:
        click.echo(
            f"left out, the same in all profiles: {', '.join(measurements.constant)}", err=True
        )
    if measurements.unpaired:
        shown = ", ".join(measurements.unpaired[:5]) + (
            ", ..." if len(measurements.unpaired) > 5 else ""
        )
        click.echo(
            f"left out, no profile on {measurements.rows.reference}: {shown} "
            f"({len(measurements.unpaired)} workloads)",
            err=True,
        )
    kinds = {name: _kind(name, platforms) for name in measurements.rows.platforms}
    return SiteInput(measurements.rows, ", ".join(map(str, paths)), kinds, measurements.values)


def _kind(name: str, platforms: Mapping[str, Platform]) -> str:
    """Return ``cpu``, ``nvidia`` or ``amd``; for a platform that is not known, its own name."""
    platform = platforms.get(name)
    if platform is None:
        return name
    if Target.CUDA in platform.targets:
        return "nvidia"
    return "amd" if Target.HIP in platform.targets else "cpu"
