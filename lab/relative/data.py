"""The public data sets (AIWC, RAJAPerf) as ``Rows``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from berth.predictor.families.relative.rows import Rows
from lab.datasets import aiwc
from lab.kernels.examples import Example, read_examples

AIWC_DATA = f"{aiwc.AIWC.title} ({aiwc.AIWC.licence})"


ANCHORS = (
    ("bfs", "kernel2#0"),
    ("dwt", "c_CopySrcToComponents#0"),
    ("kmeans", "invert_mapping#0"),
    ("lud", "lud_perimeter#0"),
    ("nw", "needle_opencl_shared_2#0"),
)
"""One of the kernels of each application that has several, at all four sizes: graph walk, copy,
transposition, dense block, wavefront. Fixed before any figure was seen."""


def aiwc_rows(reference: str = aiwc.XEON) -> Rows:
    """Return AIWC's rows: 92 OpenCL kernel launches of 9 applications on 15 devices.

    ``reference``: the device whose time is known when the others are predicted.
    """
    found = aiwc.rows()
    names = zip(found.kernels, found.invocations, strict=True)
    return Rows(
        counters=found.counters,
        values=found.values,
        platforms=found.devices,
        reference=reference,
        log_seconds=np.log(found.seconds),
        applications=found.applications,
        kernels=tuple(f"{kernel}#{invocation}" for kernel, invocation in names),
        sizes=found.sizes,
    )


def rajaperf_rows() -> Rows:
    """Return RAJAPerf's rows: 60 kernels x 3 sizes, timed on our machine, Quartz and a V100.

    The counters are from our own pilot runs. Each kernel is an application of its own, so that
    leave-one-application-out leaves out one kernel.
    """
    return rows_of(read_examples(), "quartz")


def rows_of(examples: Sequence[Example], reference: str) -> Rows:
    """Return examples as rows, with every counter that at least one profile has (else NaN)."""
    readings = [
        {str(name): r.value for name, r in example.profile.counters.items() if r.value is not None}
        for example in examples
    ]
    counters = tuple(sorted({name for each in readings for name in each}))
    seconds = [
        {
            **example.seconds,
            **({example.profile.platform: runtime.median_s} if runtime is not None else {}),
        }
        for example in examples
        for runtime in [example.profile.runtime]
    ]
    own = sorted({example.profile.platform for example in examples})
    platforms = (*own, *sorted({name for example in examples for name in example.seconds}))
    kernels = tuple(example.kernel for example in examples)
    return Rows(
        counters=counters,
        values=np.array([[each.get(name, math.nan) for name in counters] for each in readings]),
        platforms=platforms,
        reference=reference,
        log_seconds=np.log([[each.get(name, math.nan) for name in platforms] for each in seconds]),
        applications=kernels,
        kernels=kernels,
        sizes=tuple(str(example.size) for example in examples),
    )
