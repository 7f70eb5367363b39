"""Examples: the project's own kernel profiles joined with measured times of other machines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, read_profiles
from berth.predictor.hardware.ceilings import Allocation, Ceilings
from berth.predictor.learning.programs.columns import (
    LabelRow,
    LabelRows,
    kernel_and_size,
    stacked,
)
from lab.datasets.rajaperf import Row, rows

PROFILES = Path(__file__).parent / "data" / "kernel_profiles.jsonl"
"""Our measured profiles: one per line, named ``KERNEL-SIZE``, with totals of one repetition."""


@dataclass(frozen=True, slots=True)
class Example:
    """One kernel at one size: our profile, and the measured times of other machines."""

    kernel: str
    size: int
    profile: Profile
    seconds: Mapping[str, float]
    """Measured seconds, by name of the other platform."""
    row: Row
    """The published work of a repetition, for the baselines."""


def read_examples(profiles: Path | None = None) -> tuple[Example, ...]:
    """Kernel profiles (default: the committed campaign) joined with the published times."""
    return join(read_profiles(PROFILES if profiles is None else profiles), rows())


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


def columns(
    examples: Sequence[Example],
    target: Platform,
    reference: Platform,
    *,
    reference_is_label: bool = False,
) -> LabelRows:
    """Return training rows that predict ``target`` (one core or GPU) from profiles of
    ``reference``.

    With ``reference_is_label`` the reference time is the example's measured time on ``reference``
    instead of the profile's own run time (for example to predict V100 from Quartz). Raises
    UsageError for a profile without a run time.
    """
    table = Ceilings.of([Allocation(target, 1), Allocation(reference, 1)])
    training_rows = []
    for example in examples:
        profile = example.profile
        if profile.runtime is None:
            raise UsageError(f"profile {profile.name!r} has no runtime")
        own_s = example.seconds[reference.name] if reference_is_label else profile.runtime.median_s
        target_s = example.seconds[target.name]
        training_rows.append(LabelRow(profile, table, own_s, target_s, example.kernel))
    return stacked(training_rows)


def digest(lines: Iterable[str]) -> str:
    """Return the SHA-256 of the lines, joined by newlines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
