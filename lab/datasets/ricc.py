"""The first 250,000 jobs of RICC, 2010: submitted, waited, ran, asked for (no memory used).

Acknowledge: RIKEN and Motoyoshi Kurokawa provided the trace to the Parallel Workloads Archive.
Times count from the trace's beginning. A run time of 0 s counts as 1 s, a request of -1 as 1 s.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass

import numpy as np

from lab.datasets import DataSet, locate
from lab.ground.table import Flags, Floats, Places, Table

RICC = DataSet(
    path="traces/ricc_2010_first.swf.gz",
    title="RICC 2010 job trace",
    source="Parallel Workloads Archive, RICC-2010-2 "
    "(https://www.cs.huji.ac.il/labs/parallel/workload/l_ricc/)",
    licence="free with acknowledgement",
    sha256="5f55d700ad8f1b1395545ff072001852e2cf36da68bf44573285150a1d28c2f6",
)


@dataclass(frozen=True)
class Trace(Table):
    """[jobs] in order of submission."""

    submit_s: Floats
    start_s: Floats
    runtime_s: Floats
    cores: Places
    request_s: Floats
    request_bytes: Floats
    user: Places
    account: Places
    completed: Flags

    @property
    def end_s(self) -> Floats:
        """When each ended."""
        return self.start_s + self.runtime_s


def trace() -> Trace:
    """Read the trace. Raises ToolMissing or DocumentError (see ``locate``)."""
    with gzip.open(locate(RICC), "rt", encoding="ascii") as stream:
        rows = np.array(
            [line.split() for line in stream if line.strip() and line[0] != ";"], dtype=float
        )
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    cores = np.where(rows[:, 7] > 0, rows[:, 7], rows[:, 4])
    return Trace(
        submit_s=rows[:, 1],
        start_s=rows[:, 1] + np.maximum(rows[:, 2], 0.0),
        runtime_s=np.maximum(rows[:, 3], 1.0),
        cores=cores.astype(np.int64),
        request_s=np.maximum(rows[:, 8], 1.0),
        request_bytes=rows[:, 9] * 1024.0,
        user=rows[:, 11].astype(np.int64),
        account=rows[:, 12].astype(np.int64),
        completed=rows[:, 10] == 1,
    )
