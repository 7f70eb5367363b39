"""Examples: the project's own kernel profiles joined with measured times of other machines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.platform import Platform
from berth.pilot.profile import Profile, read_profiles
from berth.predictor.hardware.ceilings import Allocation, Ceilings
from berth.predictor.learning.programs.columns import LabelRow, LabelRows, stacked
from lab.datasets.rajaperf import rows

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


def read_examples() -> tuple[Example, ...]:
    """Return the kernel profiles with the published times, in the order of these."""
    profiles = {profile.name: profile for profile in read_profiles(PROFILES)}
    return tuple(
        Example(row.kernel, row.size, profiles[f"{row.kernel}-{row.size}"], row.seconds)
        for row in rows()
    )


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
    instead of the profile's own run time (for example to predict V100 from Quartz).
    """
    table = Ceilings.of([Allocation(target, 1), Allocation(reference, 1)])
    training_rows = []
    for example in examples:
        profile, seconds = example.profile, example.seconds
        assert profile.runtime is not None  # noqa: S101 - of committed profiles
        own_s = seconds[reference.name] if reference_is_label else profile.runtime.median_s
        training_rows.append(LabelRow(profile, table, own_s, seconds[target.name], example.kernel))
    return stacked(training_rows)


def digest(lines: Iterable[str]) -> str:
    """Return the SHA-256 of the lines, joined by newlines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
