"""Runs of a program sorted into cells, and what parts of their errors cells share.

Data card of ``SHIPPED``. Data: OpenCL kernels of nine applications on 15 devices (AIWC, MIT).
Residuals: log of measured over predicted time of the shipped cost model, each application left
out of its training, in units of the deviation that it states. Fitted: the shares, by maximum
likelihood of those residuals (``python -m lab site-simulation --train``). Chosen, not fitted: the
effects of platforms and of changes, for which there is no public data. Figures of held-out
applications come from shares fitted without them (docs/figures-history.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.predictor.core.arrays import Floats

SEVERAL = 5
"""Runs from which on a program's own intervals have a factor of their own."""
PHASES = 3


def phase(runs: int) -> int:
    """Return 0 before the first run of a program, 1 after 1 to 4, 2 after more."""
    return 0 if not runs else 1 if runs < SEVERAL else 2


@dataclass(frozen=True, slots=True)
class Components:
    """Variances: shares of a forecast's own squared error, and standard deviations in log time."""

    program: float
    """Share that all runs of a program have in common."""
    kind: float
    """... and those on one kind of device (CPU, GPU) beside it."""
    family: float
    """... on devices of one vendor or generation."""
    platform: float
    part: float
    """... runs of one part of the program (a kernel, a set of arguments)."""
    part_on_kind: float
    row: float
    """... runs of one part at one size and number of cores or GPUs."""
    row_on_kind: float
    cell: float
    """... of one row on one platform: nothing else tells of it."""
    length: float = 2.0
    """Rows whose log sizes (or log units, or nodes) are so far apart share exp(-1) of it."""
    run_noise: float = 0.08
    """Deviation of log time between two runs of one cell, before the program's runs tell."""
    site_kind: float = 0.15
    """Deviation of what all programs of a site have in common on one kind of device."""
    site_platform: float = 0.15
    """... on one platform; both are scaled up where many programs agree."""
    change: float = 0.7
    """Deviation of log time across a detected change: a factor of two either way."""
    interval: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Factors on the 90 % half width by ``phase``."""

    def factor(self, runs: int) -> float:
        """Return the factor on the 90 % half width after so many runs of the program."""
        return self.interval[phase(runs)]

    @property
    def total(self) -> float:
        """Return the sum of the shares: 1 where the forecast's own interval is right for a first
        run."""
        return (
            self.program + self.kind + self.family + self.platform + self.part
            + self.part_on_kind + self.row + self.row_on_kind + self.cell
        )  # fmt: skip


SHIPPED = Components(
    program=0.050,
    kind=0.062,
    family=0.136,
    platform=0.018,
    part=0.042,
    part_on_kind=0.033,
    row=0.174,
    row_on_kind=0.206,
    cell=0.279,
    length=2.0,
    interval=(1.0, 0.75, 0.75),
)
"""The shares add up to 1: before any job ends, a forecast's interval is its own. Fitted on all nine
applications they add up to 0.82, with factors of 0.96, 0.61 and 0.72: jobs of a site differ more
than kernels do, so that three quarters is what ships, and online levels do the rest."""


LEAST_DEVIATION = 0.02
"""Least deviation of log time: no forecast is better than this."""


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
    """Log of cores, or GPUs."""
    log_nodes: float = 0.0
    """Log of nodes, over those of the program's main run."""


class Cell(NamedTuple):
    """Runs of one cell differ by the noise of runs only."""

    place: Place
    row: Row
    deviation: float
    """Deviation of the forecast's log time, as the forecast states it."""
    epoch: int = 0
    """Epoch of the program: goes up by one with each detected change."""
    place_epoch: int = 0
    """Epoch of the platform, likewise."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished job as the posterior sees it."""

    cell: Cell
    log_residual: float
    """Log of its time over the forecast without learning."""
    censored: bool = False
    """It was killed by its time limit: it would have taken longer."""
    job: str = ""


def covariance(left: Sequence[Cell], right: Sequence[Cell], parts: Components) -> Floats:
    """Return the covariance of the forecast's errors in ``left`` and in ``right`` cells of one
    program."""
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
    """Return what changes of the program add: one unknown for each epoch, where there are
    several."""
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
        a = np.array([codes.setdefault(key, len(codes)) for key in ours], dtype=np.int64)
        b = np.array([codes.setdefault(key, len(codes)) for key in theirs], dtype=np.int64)
        return np.equal.outer(a, b).astype(np.float64)

    def apart(self, ours: Sequence[float], theirs: Sequence[float]) -> Floats:
        return np.asarray(np.abs(np.subtract.outer(np.array(ours), np.array(theirs))))
