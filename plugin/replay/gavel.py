"""Traces of deep-learning jobs as Gavel writes them (Narayanan et al., OSDI 2020).

Fields by tabs: job type, command, argument of the steps, whether it needs data, steps, second of
arrival, GPUs (``scale_factor``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from berth.plugin.history.reading import Read, Unreadable
from berth.policies.replay.trace import Floats, Trace, trace_of

FIELDS = 7


def begins_gavel(line: str) -> bool:
    """Whether a first line is of such a trace."""
    parts = line.split("\t")
    return len(parts) == FIELDS and "%s" in parts[1]


def read_gavel(lines: Sequence[str], read: Read) -> tuple[Trace, Floats]:
    """The trace, without run times, and the steps of each job. Broken lines go to ``read``."""
    rows: list[tuple[float, int, float, str]] = []
    for number, raw in enumerate(lines, 1):
        line = raw.strip("\r\n")
        if not line.strip():
            continue
        try:
            rows.append(_row(line))
        except Unreadable as error:
            read.refuse(number, line, error)
    rows.sort(key=lambda row: row[0])
    size = len(rows)
    gpus = np.array([row[1] for row in rows], np.int64)
    steps = np.array([row[2] for row in rows], float)
    base = trace_of(
        np.array([row[0] for row in rows], float), np.full(size, np.nan),
        np.ones(size, np.int64), gpus=gpus,
    )  # fmt: skip
    names, ids = tuple(row[3] for row in rows), tuple(map(str, range(size)))
    return replace(base, names=names, ids=ids), steps


def _row(line: str) -> tuple[float, int, float, str]:
    parts = line.split("\t")
    if len(parts) != FIELDS:
        raise Unreadable(f"{len(parts)} fields where Gavel has {FIELDS}")
    try:
        steps, arrival, gpus = float(parts[4]), float(parts[5]), int(parts[6])
    except ValueError:
        raise Unreadable("a field is not a number") from None
    if gpus < 1 or not 0 <= steps < math.inf or not 0 <= arrival < math.inf:
        raise Unreadable("a negative number, or no GPU")
    return arrival, gpus, steps, parts[0]
