"""RAJAPerf's times on Quartz and Lassen joined with the project's own profiles, as Rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.programs.columns import read_profiles
from lab.datasets import rajaperf
from lab.kernels.examples import PROFILES, Example, join

REFERENCE = "quartz"
CPUS = ("quartz", "epyc-genoa-vm")


def rajaperf_rows() -> Rows:
    """60 kernels x 3 sizes: counters of our pilots, times on our machine, Quartz and a V100.

    A kernel is an application of its own: leaving one application out is leaving one kernel out.
    """
    return rows_of(join(read_profiles(PROFILES), rajaperf.rows()))


def rows_of(examples: Sequence[Example]) -> Rows:
    """Examples as rows; the counters are those that any profile has a value of, else NaN."""
    named = {
        name
        for example in examples
        for name, reading in example.profile.counters.items()
        if reading.value is not None
    }
    counters = tuple(sorted(str(name) for name in named))
    own = sorted({example.profile.platform for example in examples})
    platforms = (*own, *sorted({name for example in examples for name in example.seconds}))
    values = np.full((len(examples), len(counters)), np.nan)
    seconds = np.full((len(examples), len(platforms)), np.nan)
    for i, example in enumerate(examples):
        readings = {str(name): r.value for name, r in example.profile.counters.items()}
        values[i] = [math.nan if (v := readings.get(name)) is None else v for name in counters]
        if example.profile.runtime is not None:
            seconds[i, platforms.index(example.profile.platform)] = example.profile.runtime.median_s
        for name, taken in example.seconds.items():
            seconds[i, platforms.index(name)] = taken
    return Rows(
        counters=counters,
        values=values,
        platforms=platforms,
        reference=REFERENCE,
        log_seconds=np.log(seconds),
        applications=tuple(example.kernel for example in examples),
        kernels=tuple(example.kernel for example in examples),
        sizes=tuple(str(example.size) for example in examples),
    )
