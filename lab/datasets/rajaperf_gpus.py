"""RAJAPerf's applications on an H100 and on an MI300A in SPX mode, at eleven to thirteen sizes.

Rows without RAJA's abstraction (``Base_CUDA``, ``Base_HIP``) are taken, as on Quartz and Lassen; of
several tunings the plain one (``direct``). Four ranks ran at once, each on a GPU of its own; times
and work are of one rank.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from lab.datasets import DataSet, locate

RAJAPERF_GPUS = DataSet(
    path="counters/rajaperf_h100_mi300a.csv",
    title="RAJAPerf applications on H100 and MI300A",
    source="LLNL RAJAPerf-Benchmark 2026-FCR (https://github.com/LLNL/RAJAPerf)",
    licence="BSD-3-Clause",
    sha256="8c9fe8ddcff444712ecf5cab968c4001385dbc044be44fde107f805dcd622be5",
)
SYSTEMS = {"H100": "h100-80gb", "MI300A-SPX": "mi300a-128gb"}
"""Platform by the data set's name of the system."""
_VARIANTS = ("Base_CUDA", "Base_HIP")


@dataclass(frozen=True, slots=True)
class Timing:
    """A kernel's measured time at one problem size on one GPU."""

    kernel: str
    size: int
    platform: str
    seconds: float
    """Mean time of a repetition."""
    bytes_per_rep: float


@cache
def timings() -> tuple[Timing, ...]:
    """Return all measured times, by platform, kernel and size."""
    with locate(RAJAPERF_GPUS).open(encoding="utf-8") as stream:
        rows = [
            row
            for row in csv.DictReader(stream)
            if row["variant"] in _VARIANTS and not row["tuning"].startswith("runtime")
        ]
    every = [
        Timing(
            kernel=row["kernel"],
            size=int(float(row["problem_size"])),
            platform=SYSTEMS[row["system"]],
            seconds=float(row["time_per_rep_s"]),
            bytes_per_rep=float(row["bytes_per_rep"]),
        )
        for row in rows
    ]
    # Two of the suite's size factors may give one problem size: the first is taken.
    found = {(t.platform, t.kernel, t.size): t for t in reversed(every)}
    return tuple(found[key] for key in sorted(found))
