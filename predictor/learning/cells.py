"""Runs of a program sorted into cells, and how far the errors of two cells go together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.components import Components

LEAST_DEVIATION = 0.02
"""Of log time: no forecast is better than this."""


class Place(NamedTuple):
    """A platform, and what it is, from coarse to fine."""

    platform: str
    kind: str = ""
    """``cpu`` or ``gpu``."""
    family: str = ""
    """Vendor or generation; empty: the kind alone."""


class Row(NamedTuple):
    """What a run did, as far as runs are distinguished."""

    part: str = ""
    log_size: float = 0.0
    log_units: float = 0.0
    """Of cores, or GPUs."""
    log_nodes: float = 0.0
    """Of nodes, over those of the program's main run."""


class Cell(NamedTuple):
    """Runs of one cell differ by the noise of runs only."""

    place: Place
    row: Row
    deviation: float
    """Of the forecast's log time, as the forecast states it."""
    epoch: int = 0
    """Of the program: goes up by one with each detected change."""
    place_epoch: int = 0
    """Of the platform, likewise."""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished job."""

    cell: Cell
    log_residual: float
    """Log of its time over the forecast without learning."""
    censored: bool = False
    """It was killed by its time limit: it would have taken longer."""
    job: str = ""


def covariance(left: Sequence[Cell], right: Sequence[Cell], parts: Components) -> Floats:
    """Of the forecast's errors in ``left`` and in ``right`` cells of one program."""
    same = _Same(left, right)
    kind = same.of([c.place.kind for c in left], [c.place.kind for c in right])
    family = same.of([c.place[1:] for c in left], [c.place[1:] for c in right])
    platform = same.of([c.place.platform for c in left], [c.place.platform for c in right])
    part = same.of([c.row.part for c in left], [c.row.part for c in right])
    apart = same.apart([c.row.log_size for c in left], [c.row.log_size for c in right])
    apart = apart + same.apart([c.row.log_units for c in left], [c.row.log_units for c in right])
    apart = apart + same.apart([c.row.log_nodes for c in left], [c.row.log_nodes for c in right])
    row = part * np.exp(-apart / parts.length)
    shared = (
        parts.program
        + parts.kind * kind
        + parts.family * family
        + parts.platform * platform
        + parts.part * part
        + parts.part_on_kind * part * kind
        + parts.row * row
        + parts.row_on_kind * row * kind
        + parts.cell * row * platform
    )
    ours = np.array([max(c.deviation, LEAST_DEVIATION) for c in left])
    theirs = np.array([max(c.deviation, LEAST_DEVIATION) for c in right])
    # The smaller variance: what a sure forecast missed is not multiplied where another is unsure.
    return np.asarray(shared * np.minimum.outer(ours, theirs) ** 2)


def changes(left: Sequence[Cell], right: Sequence[Cell], parts: Components) -> Floats:
    """What changes of the program add: one unknown for each epoch, where there are several."""
    if not any(c.epoch for c in (*left, *right)):
        return np.zeros((len(left), len(right)))
    same = _Same(left, right).of([c.epoch for c in left], [c.epoch for c in right])
    return np.asarray(parts.change**2 * same)


@dataclass(frozen=True, slots=True)
class _Same:
    left: Sequence[Cell]
    right: Sequence[Cell]

    def of(self, ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> Floats:
        codes: dict[Hashable, int] = {}
        a = np.array([codes.setdefault(one, len(codes)) for one in ours], dtype=np.int64)
        b = np.array([codes.setdefault(one, len(codes)) for one in theirs], dtype=np.int64)
        return np.equal.outer(a, b).astype(np.float64)

    def apart(self, ours: Sequence[float], theirs: Sequence[float]) -> Floats:
        return np.asarray(np.abs(np.subtract.outer(np.array(ours), np.array(theirs))))
