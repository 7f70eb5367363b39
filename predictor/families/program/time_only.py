"""Programs of which only time and memory are known: as the reference suite does on average.

Each kernel of the suite stands for what the program may be doing, its counts scaled to the
program's time. The middle of their predictions is the answer; their spread is its interval, which
held-out kernels widen to its nominal cover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from berth.pilot.catalogue import REQUIRED
from berth.pilot.profile import Measurement, Profile
from berth.predictor.families.program.estimate import Estimate
from berth.predictor.learning.programs.suite import suite_profiles

SPREAD = 0.9
"""Share of the kernels whose prediction is within the interval, before it is widened."""
WIDENING = 1.15
"""97 % of the kernels are covered on Quartz and 95 % on a V100, each left out here (the residual
had seen it in training, so a little more than 90 is wanted)."""

Counters = dict[str, Measurement]


def is_time_only(profile: Profile) -> bool:
    """Whether none of the counters is known that say what the program does."""
    return profile.runtime is not None and all(profile.value(name) is None for name in REQUIRED)


def stand_ins(profile: Profile, without: str | None = None) -> list[Profile]:
    """``profile`` with the counters of each kernel in turn; ``without``: a kernel left out."""
    return [
        profile.model_copy(update={"counters": {**profile.counters, **counters}})
        for kernel, counters in _suite_counters()
        if kernel != without
    ]


@cache
def _suite_counters() -> tuple[tuple[str, Counters], ...]:
    """Kernel and its counters, marked as of a part: they are known up to a common factor.

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
    """One estimate a point from those of all ``profiles``."""
    each = [estimates(profile) for profile in profiles]
    found = []
    for column in zip(*each, strict=True):
        first = column[0]
        logs = np.array([one.log_time for one in column])
        middle = float(np.median(logs))
        spread = float(np.quantile(np.abs(logs - middle), SPREAD))
        own = float(np.median([one.log_width for one in column]))
        width = own if spread == 0 else WIDENING * float(np.hypot(spread, own))
        found.append(replace(first, log_time=middle, log_width=width))
    return found
