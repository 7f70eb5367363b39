"""Programs of which only time and memory are known: predicted as the reference suite is on average.

Each kernel of the suite stands for what the program may be doing, its counts scaled to the
program's time. The middle of their predictions is the answer; their spread is its interval, which
held-out kernels widen to its nominal cover. The suite's counts are shipped: they do not depend on
the machine that they are made on (the caches are emulated), so that a site measures times only.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from berth.pilot.catalogue import REQUIRED
from berth.pilot.documents import parse_json
from berth.pilot.errors import DocumentError
from berth.pilot.native import runtime_of
from berth.pilot.profile import Measurement, Profile
from berth.predictor.families.program.estimate import Estimate

SPREAD = 0.9
"""Share of the kernels whose prediction is within the interval, before it is widened."""
WIDENING = 1.15
"""97 % of the kernels are covered on Quartz and 95 % on a V100, each left out here (the residual
had seen it in training, so a little more than 90 is wanted)."""

Counters = dict[str, Measurement]


def is_time_only(profile: Profile) -> bool:
    """Return whether none of the counters is known that say what the program does."""
    return profile.runtime is not None and all(profile.value(name) is None for name in REQUIRED)


def stand_ins(profile: Profile, without: str | None = None) -> list[Profile]:
    """Return ``profile`` with the counters of each kernel in turn; ``without``: a kernel left
    out."""
    return [
        profile.model_copy(update={"counters": {**profile.counters, **counters}})
        for kernel, counters in _suite_counters()
        if kernel != without
    ]


@cache
def _suite_counters() -> tuple[tuple[str, Counters], ...]:
    """Return each kernel and its counters, marked as of a part: they are known up to a common
    factor.

    Each at its first size, so that all weigh the same.
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


def combined(
    profiles: Sequence[Profile], estimates: Callable[[Profile], Sequence[Estimate]]
) -> list[Estimate]:
    """Return one estimate for each point from those of all ``profiles``."""
    each = [estimates(profile) for profile in profiles]
    combined_estimates = []
    for column in zip(*each, strict=True):
        first = column[0]
        logs = np.array([kernel_estimate.log_time for kernel_estimate in column])
        middle = float(np.median(logs))
        spread = float(np.quantile(np.abs(logs - middle), SPREAD))
        own = float(np.median([kernel_estimate.log_width for kernel_estimate in column]))
        width = own if spread == 0 else WIDENING * float(np.hypot(spread, own))
        combined_estimates.append(replace(first, log_time=middle, log_width=width))
    return combined_estimates


COUNTS = Path(__file__).with_name("suite_counts.jsonl.gz")
"""Profiles of one repetition each, made by ``python -m lab.kernels.suite_counts``."""


@cache
def suite_profiles() -> Mapping[str, Profile]:
    """Return the profiles by name (``Stream_TRIAD-1048576``), all at the first size before any at
    the second.

    Raises DocumentError where the file is damaged.
    """
    try:
        lines = gzip.decompress(COUNTS.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DocumentError(COUNTS, f"cannot be read: {error}") from None
    profiles = (parse_json(line, Profile, source=COUNTS) for line in lines)
    return {profile.name: profile for profile in profiles}


def timed(platform: str, seconds: Mapping[str, float]) -> list[Profile]:
    """Return the suite's profiles as if piloted on ``platform``; kernels without a time are left
    out."""
    return [
        profile.model_copy(update={"platform": platform, "runtime": runtime_of([seconds[name]])})
        for name, profile in suite_profiles().items()
        if name in seconds
    ]
