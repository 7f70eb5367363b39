"""Predictions of programs without counters, from the average behaviour of the reference suite.

Only the run time and memory of such a program are known. Each kernel of the suite is taken in turn
as a model of the program: its counters are scaled to the program's run time, and the program is
predicted from these. The median of the predictions is the result. The spread of the predictions
gives the interval, which is widened so that it covers left-out kernels as often as stated.

The suite's counters are shipped with Berth. They are independent of the machine, because the caches
are emulated; a site measures only the run times of the suite.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from berth.pilot.documents import parse_json_lines
from berth.pilot.errors import DocumentError
from berth.pilot.native import runtime_of
from berth.pilot.profile import Measurement, Profile
from berth.predictor.families.program.estimate import LogEstimate
from berth.predictor.families.program.work import missing_counters

SPREAD = 0.9
"""Share of the kernels whose predictions lie within the interval before it is widened."""
WIDENING = 1.15
"""Factor on the log interval.

With this factor, the intervals cover 97 % of left-out kernels on Quartz and 95 % on a V100. More
than 90 % is required, because the learnt correction was trained with the left-out kernels.
"""

Counters = dict[str, Measurement]
"""Counters of a profile by name."""


def is_time_only(profile: Profile) -> bool:
    """Return whether a profile has a run time but not all counters required for a roofline."""
    return profile.runtime is not None and bool(missing_counters(profile))


def missing_counters_sentence(profile: Profile) -> str | None:
    """Return what a profile lacks and how it is predicted without; None: it lacks nothing."""
    absent = missing_counters(profile)
    if not absent:
        return None
    return f"it has no {', no '.join(absent)}: predicted by its time, like a typical program"


def mispredicts_per_instruction(profile: Profile) -> float | None:
    """Return the mispredicted branches per instruction of a profile; None: not counted."""
    instructions, mispredicts = profile.value("instructions"), profile.value("branch_misses")
    return mispredicts / instructions if instructions and mispredicts is not None else None


def stand_ins(profile: Profile, without: str | None = None) -> list[Profile]:
    """Return copies of a profile, each with the counters of one kernel of the reference suite.

    The kernel named ``without`` is left out.
    """
    return [
        profile.model_copy(update={"counters": {**profile.counters, **counters}})
        for kernel, counters in _suite_counters()
        if kernel != without
    ]


@cache
def _suite_counters() -> tuple[tuple[str, Counters], ...]:
    """Return (kernel, counters) for each kernel of the reference suite, at its first problem size.

    The counters are marked as incomplete, so that they are scaled to the program's run time. With
    one size per kernel, all kernels have the same weight.
    """
    first: dict[str, Profile] = {}
    for name, profile in suite_profiles().items():
        first.setdefault(name.rpartition("-")[0], profile)
    return tuple(
        (
            kernel,
            {
                counter: measurement.model_copy(update={"complete": False})
                for counter, measurement in profile.counters.items()
                if measurement.source != "proc" and measurement.value is not None
            },
        )
        for kernel, profile in first.items()
    )


def combined(each: Sequence[Sequence[LogEstimate]]) -> list[LogEstimate]:
    """Return one estimate per platform and core count: the median of the estimates of several
    profiles.

    The spread of the estimates gives the interval.
    """
    combined_estimates = []
    for column in zip(*each, strict=True):
        first = column[0]
        logs = np.array([kernel_estimate.log_time for kernel_estimate in column])
        middle = float(np.median(logs))
        spread = float(np.quantile(np.abs(logs - middle), SPREAD))
        own = float(np.median([kernel_estimate.log_width for kernel_estimate in column]))
        width = own if spread < 1e-9 else WIDENING * float(np.hypot(spread, own))
        combined_estimates.append(replace(first, log_time=middle, log_width=width))
    return combined_estimates


COUNTS = Path(__file__).with_name("suite_counts.jsonl.gz")
"""File with the profiles of the suite, one repetition per kernel and problem size.

``python -m lab.kernels.suite_counts`` writes the file.
"""


@cache
def suite_profiles() -> Mapping[str, Profile]:
    """Return the reference suite's profiles by name (for example ``Stream_TRIAD-1048576``).

    All profiles at the first problem size come before those at the second. Raises DocumentError if
    the file is damaged.
    """
    try:
        lines = gzip.decompress(COUNTS.read_bytes())
    except (OSError, EOFError) as error:
        raise DocumentError(COUNTS, f"cannot be read: {error}") from None
    profiles = parse_json_lines(lines, Profile, source=COUNTS)
    return {profile.name: profile for profile in profiles.values()}


def timed(platform: str, seconds: Mapping[str, float]) -> list[Profile]:
    """Return the reference suite's profiles with these run times in seconds, as measured on
    ``platform``.

    Kernels without a run time are left out.
    """
    return [
        profile.model_copy(update={"platform": platform, "runtime": runtime_of([seconds[name]])})
        for name, profile in suite_profiles().items()
        if name in seconds
    ]
