"""True run times on platforms, from CSV: what ran elsewhere, or throughputs of kinds of jobs.

Two headers are read: ``job,platform,runtime_s`` (by the scheduler's job id), and
``name,platform,gpus,steps_per_s`` (by the job's name, for traces that say how many steps).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError
from berth.plugin.replay.tables import Row, read_table
from berth.policies.replay import Cluster
from berth.policies.replay.trace import Floats, Trace

_BY_JOB = ("job", "platform", "runtime_s")
_BY_NAME = ("name", "platform", "gpus", "steps_per_s")


def with_times(trace: Trace, file: Path, steps: Floats | None = None) -> Trace:
    """The trace with ``runtime_on``; ``steps`` [jobs] if it says them. Raises DocumentError."""
    header, rows = read_table(file)
    if header == _BY_JOB:
        table = _table(file, rows, header, number="runtime_s")
        keys = [(one,) for one in trace.ids]
        return replace(trace, runtime_on=_columns(table, keys, np.ones(len(trace)), rate=False))
    if header == _BY_NAME:
        if steps is None:
            raise DocumentError(file, "gives steps a second, and the trace does not count steps")
        table = _table(file, rows, header, number="steps_per_s")
        by_name = zip(trace.names, trace.gpus.tolist(), strict=True)
        names = [(name, str(gpus)) for name, gpus in by_name]
        return replace(trace, runtime_on=_columns(table, names, steps, rate=True))
    raise DocumentError(
        file, "has another header than a table of run times",
        hint=f"begin it with {','.join(_BY_JOB)} or {','.join(_BY_NAME)}",
    )  # fmt: skip


def with_own_times(trace: Trace, cluster: Cluster) -> Trace:
    """The trace with the run times of jobs where they were submitted, in tables that say times by
    platform only."""
    own = trace.runtime_s.copy()
    names = {part.name: place for place, part in enumerate(cluster.partitions)}
    for queue, name in enumerate(trace.queues):
        column = None
        if name in names:
            column = trace.runtime_on.get(cluster.platform_of(names[name]))
        if column is not None:
            rows = np.flatnonzero((trace.queue == queue) & np.isnan(own))
            own[rows] = column[rows]
    return replace(trace, runtime_s=own)


Table = dict[str, dict[tuple[str, ...], float]]


def _table(file: Path, rows: Sequence[Row], header: Sequence[str], *, number: str) -> Table:
    """Numbers by platform and by what the other columns say."""
    found: Table = {}
    for row in rows:
        cells = dict(zip(header, row.cells, strict=True))
        try:
            value = float(cells[number])
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise DocumentError(file, f"line {row.number}: {number} is no number above 0")
        key = tuple(cells[name] for name in header if name not in {"platform", number})
        found.setdefault(cells["platform"], {})[key] = value
    return found


def _columns(
    table: Table, keys: Sequence[tuple[str, ...]], amounts: Floats, *, rate: bool
) -> dict[str, Floats]:
    found = {}
    for platform, values in table.items():
        column = np.array([values.get(key, np.nan) for key in keys])
        found[platform] = amounts / column if rate else column
    return found
