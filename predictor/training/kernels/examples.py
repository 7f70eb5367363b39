"""Examples: the project's own kernel profiles joined with measured times of other machines."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile
from berth.predictor.ceilings import Ceilings, Floats, Point
from berth.predictor.datasets.rajaperf import Row
from berth.predictor.features import Reference, feature_row
from berth.predictor.roofline import times
from berth.predictor.scaling import ThreadScaling
from berth.predictor.work import work_of

PROFILES = Path(__file__).parent / "data" / "kernel_profiles.jsonl"
"""The committed campaign: one Profile a line, named ``KERNEL-SIZE``, totals of one repetition."""

_NAME = re.compile(r"([A-Za-z0-9]\w*)[-+.@](\d+)")


@dataclass(frozen=True, slots=True)
class Example:
    """One kernel at one size: our profile, and what other machines took for it."""

    kernel: str
    size: int
    profile: Profile
    seconds: Mapping[str, float]
    """By labelled platform."""
    row: Row
    """The published work of a repetition, for the rivals."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a model is fitted on: one reference, one target, one row an example."""

    features: Floats
    fixed_s: Floats
    """Of the target's roofline: launches and atomics."""
    parallel_s: Floats
    """Of the target's roofline: the rest."""
    reductions: Floats
    """Results that the target must fetch."""
    log_efficiency: Floats
    """Reference time over its own roofline."""
    log_reference: Floats
    log_time: Floats
    """Measured on the target."""
    kernels: tuple[str, ...]

    def take(self, index: Floats | Sequence[int]) -> Columns:
        """Some of the rows."""
        chosen = np.asarray(index, dtype=np.intp)
        return Columns(
            self.features[chosen],
            self.fixed_s[chosen],
            self.parallel_s[chosen],
            self.reductions[chosen],
            self.log_efficiency[chosen],
            self.log_reference[chosen],
            self.log_time[chosen],
            tuple(self.kernels[i] for i in chosen),
        )

    def __len__(self) -> int:
        return len(self.kernels)


def read_profiles(path: Path = PROFILES) -> tuple[Profile, ...]:
    """Profiles from a JSON-lines file. Raises DocumentError naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(
            path, "does not exist", hint="`berth pilot campaign` makes it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(path, f"cannot be read: {error}") from None
    found = tuple(
        parse_json(line, Profile, source=f"{path}: line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    )
    if not found:
        raise DocumentError(path, "holds no profiles")
    return found


def join(profiles: Iterable[Profile], labels: Iterable[Row]) -> tuple[Example, ...]:
    """Profiles ``KERNEL-SIZE`` with the labels of the same kernel and size, in a fixed order.

    Raises UsageError for a profile given twice, a label that is not a positive number, or where
    nothing joins.
    """
    by_key: dict[tuple[str, int], Profile] = {}
    for profile in profiles:
        key = kernel_and_size(profile.name)
        if key is None:
            continue
        if key in by_key:
            raise UsageError(f"two profiles are of {key[0]} at size {key[1]}")
        by_key[key] = profile
    examples = []
    for row in labels:
        for platform, seconds in row.seconds.items():
            if not (math.isfinite(seconds) and seconds > 0):
                raise UsageError(
                    f"the label of {row.kernel} at {row.size} on {platform} is {seconds}, "
                    "not a positive number"
                )
        found = by_key.get((row.kernel, row.size))
        if found is not None and found.runtime is not None and found.complete:
            examples.append(Example(row.kernel, row.size, found, row.seconds, row))
    if not examples:
        raise UsageError(
            "no profile is of a labelled kernel and size",
            hint="profiles are joined by name, for example Stream_TRIAD-8388608",
        )
    return tuple(examples)


def kernel_and_size(name: str) -> tuple[str, int] | None:
    """``("Stream_TRIAD", 8388608)`` from ``Stream_TRIAD-8388608``; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match.group(1), int(match.group(2)))


def columns(
    examples: Sequence[Example],
    target: Platform,
    reference: Platform,
    *,
    reference_is_label: bool = False,
) -> Columns:
    """Feature rows for ``target`` (at one core or GPU) as seen from ``reference``.

    With ``reference_is_label`` the reference time is the label of that platform rather than the
    profile's own runtime (prediction from Quartz to V100, say).
    """
    table = Ceilings.of([Point(target, 1), Point(reference, 1)])
    rows, parts, efficiencies, references, measured = [], [], [], [], []
    for example in examples:
        profile = example.profile
        runtime = profile.runtime
        if runtime is None:
            raise UsageError(f"profile {profile.name!r} has no runtime")
        seconds = example.seconds[reference.name] if reference_is_label else runtime.median_s
        work, scaling = work_of(profile), ThreadScaling.of(profile)
        roof = times(work, table, scaling)
        run = Reference(seconds, 1)
        rows.append(feature_row(work, scaling, run, roof, 0))
        parts.append((roof.fixed[0], roof.parallel[0], roof.reductions[0]))
        efficiencies.append(math.log(seconds / roof.total[1]))
        references.append(math.log(seconds))
        measured.append(math.log(example.seconds[target.name]))
    fixed, parallel, reductions = np.array(parts).T
    return Columns(
        np.array(rows),
        fixed,
        parallel,
        reductions,
        np.array(efficiencies),
        np.array(references),
        np.array(measured),
        tuple(example.kernel for example in examples),
    )


def digest(lines: Iterable[str]) -> str:
    """SHA-256 of text lines in their order."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
