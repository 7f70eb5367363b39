"""Anchor kernels: a device's signature where no benchmark was run on it (AIWC).

Their times stand in for the paper's benchmark suite: one sample a problem size (there: a thread
count), one feature an anchor kernel. Anchors are left out of every test of xAMM, and where an
application is held out its anchors are not in the rows that the signature is made from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.predictor.families.relative.rows import Rows
from lab.published.xamm.benchmarks import Benchmarks

ANCHORS = (
    ("bfs", "kernel2#0"),
    ("dwt", "c_CopySrcToComponents#0"),
    ("kmeans", "invert_mapping#0"),
    ("lud", "lud_perimeter#0"),
    ("nw", "needle_opencl_shared_2#0"),
)
"""One of the kernels of each application that has several, at all four sizes: graph walk, copy,
transposition, dense block, wavefront. Fixed before any figure was seen."""


def is_anchor(rows: Rows, anchors: Sequence[tuple[str, str]] = ANCHORS) -> list[bool]:
    """A row: does it belong to an anchor kernel?"""
    return [pair in anchors for pair in zip(rows.applications, rows.kernels, strict=True)]


def signatures(rows: Rows, anchors: Sequence[tuple[str, str]] = ANCHORS) -> Benchmarks:
    """Platform -> sizes x anchors that are among ``rows``: log time over that on the reference."""
    cells = {
        (a, k, s): i
        for i, (a, k, s) in enumerate(zip(rows.applications, rows.kernels, rows.sizes, strict=True))
        if (a, k) in anchors
    }
    sizes = sorted({size for _, _, size in cells})
    present = sorted({(a, k) for a, k, _ in cells})
    relative = -rows.log_speedup
    samples = {}
    for column, platform in enumerate(rows.platforms):
        table = np.full((len(sizes), len(present)), np.nan)
        for (application, kernel, size), row in cells.items():
            place = sizes.index(size), present.index((application, kernel))
            table[place] = relative[row, column]
        samples[platform] = table
    return Benchmarks(tuple(f"{a}/{k}" for a, k in present), samples)
