"""Training rows from a site's own measurements: profiles of the same workloads on several
platforms.

Input paths are files or folders of profiles (``.json``, ``.jsonl``) and of run times (``.csv``:
``name,platform,runtime_s``). Counters are taken from the profiles of one platform, the reference;
from all other platforms only the run time is used.
"""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.catalogue import BY_NAME
from berth.pilot.documents import parse_json_lines, read_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.profile import NAME_PATTERN, Profile
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.bundle import constant_counters
from berth.predictor.families.relative.rows import Rows, identity
from berth.predictor.families.relative.views import VIEWS

_LABELS = ("name", "platform", "runtime_s")
_MOST_FILES = 20_000
_MOST_BYTES = 256 * 2**20
_SHORTEST_S, _LONGEST_S = 1e-9, 1e9
"""Bounds of a plausible run time in seconds."""
_FEW = 0.25
"""Share of the workloads below which a platform's name may be a misspelling."""
_SLOWER, _FASTER = 100.0, 2000.0
"""Median slowdown and speedup against the reference above which the unit of times may be wrong."""


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
    doubtful: tuple[str, ...] = ()
    """Sentences about platforms whose times look like a mistake; their rows are included."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Profiles and times as read from files."""

    profiles: list[tuple[str, Profile]]
    """Profiles, each with the file (and line) where it was read."""
    labels: dict[tuple[str, str], float]
    """Run time in seconds by (workload, platform)."""


def read_measurements(paths: Sequence[Path], reference: str | None = None) -> Measurements:
    """Return training rows from all profiles and times in ``paths``.

    ``reference``: platform whose counters are used; None: the platform with the most profiles.

    Raises UsageError or DocumentError: nothing to read, a run that did not complete, a workload
    timed twice on a platform, a time below a nanosecond or above thirty years, an unknown counter,
    a time that is not a number, a reference without profiles or not unique, counters that are all
    constant.
    """
    read = _read(paths)
    for source, profile in read.profiles:
        _check(source, profile)
    chosen = _reference([profile for _, profile in read.profiles], reference)
    base = _by_name(read.profiles, chosen)
    seconds = dict(read.labels)
    for source, profile in read.profiles:
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
        tuple(_doubts(rows)),
    )


def _doubts(rows: Rows) -> Iterable[str]:
    for name, speedup in zip(rows.platforms, rows.log_speedup.T, strict=True):
        known = speedup[np.isfinite(speedup)]
        if len(known) < _FEW * len(rows):
            yield (
                f"{name}: {len(known)} of {len(rows)} workloads have a time there; "
                "is its name spelt the same everywhere?"
            )
        middle = math.exp(float(np.median(known))) if len(known) else 1.0
        if not 1 / _SLOWER <= middle <= _FASTER:
            gap = f"{middle:.3g} times faster" if middle > 1 else f"{1 / middle:.3g} times slower"
            yield f"{name}: {gap} than {rows.reference}; is every time in seconds?"


def _read(paths: Sequence[Path]) -> _Read:
    read = _Read([], {})
    files = [file for path in paths for file in _files(path)]
    for file in files:
        if file.suffix == ".csv":
            for name, platform, taken, source in _labels(file):
                _add(read.labels, name, platform, taken, source)
        elif file.suffix == ".jsonl":
            lines = parse_json_lines(_text(file).encode(), Profile, source=file)
            read.profiles.extend(lines.items())
        else:
            read.profiles.append((str(file), read_json(file, Profile)))
    if not read.profiles:
        shown = ", ".join(map(str, paths))
        raise UsageError(
            f"there is no profile in {shown}",
            hint="`berth pilot run -o FOLDER/NAME.json` writes one; see docs/relative.md",
        )
    return read


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise DocumentError(path, "does not exist")
        return [path]
    files = sorted(f for f in path.rglob("*") if f.suffix in {".json", ".jsonl", ".csv"})
    if len(files) > _MOST_FILES:
        raise DocumentError(path, f"holds more than {_MOST_FILES} files")
    return files


def _labels(file: Path) -> Iterable[tuple[str, str, float, str]]:
    reader = csv.DictReader(_text(file).splitlines(), restkey="", strict=True)
    try:
        header, lines = list(reader.fieldnames or []), [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise DocumentError(file, f"cannot be read: {error}") from None
    if not header:
        raise DocumentError(file, f"is empty: its first line must be {','.join(_LABELS)}")
    if sorted(header) != sorted(_LABELS):
        raise DocumentError(file, f"has columns {', '.join(header)}, not {', '.join(_LABELS)}")
    for number, row in lines:
        source = f"{file}, line {number}"
        if None in row.values() or "" in row:
            raise DocumentError(source, "has another number of cells than the header")
        try:
            taken = float(row["runtime_s"])
        except ValueError:
            taken = math.nan
        if not (math.isfinite(taken) and taken > 0):
            raise DocumentError(
                source,
                f"runtime_s is {row['runtime_s']!r}, not a time above 0",
                hint="leave the line out where a time is not known",
            )
        name, platform = row["name"].strip(), row["platform"].strip()
        for key, value in (("name", name), ("platform", platform)):
            if re.fullmatch(NAME_PATTERN, value) is None:
                raise DocumentError(
                    source,
                    f"{key} is {value!r}",
                    hint="a name has letters, digits and _.+- only, as in a profile",
                )
        yield name, platform, taken, source


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise DocumentError(file, f"is larger than {_MOST_BYTES} bytes")
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(file, f"cannot be read: {error}") from None


_KNOWN = frozenset(BY_NAME)


def _check(source: str, profile: Profile) -> None:
    """Raise UsageError for a run that did not complete or has an unknown counter."""
    if profile.runtime is None or not profile.complete or profile.exit_status != 0:
        raise UsageError(
            f"{source}: the run of {profile.name!r} on {profile.platform!r} did not complete"
        )
    known = _KNOWN.union(*(view.counters for view in VIEWS.values()))
    if unknown := sorted(set(profile.counters) - known):
        near = difflib.get_close_matches(unknown[0], sorted(known), n=1, cutoff=0.5)
        raise UsageError(
            f"{source}: the counter {unknown[0]!r} of {profile.name!r} is unknown",
            hint=f"did you mean {near[0]!r}?" if near else "docs/counters.md lists them",
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


def _by_name(profiles: Sequence[tuple[str, Profile]], reference: str) -> dict[str, Profile]:
    return {profile.name: profile for _, profile in profiles if profile.platform == reference}


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
