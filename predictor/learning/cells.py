"""Cells (runs of a program on the same platform, size and resources) and the covariance of forecast
errors between cells.

Data card of ``SHIPPED``. Data: OpenCL kernels of nine applications on 15 devices (AIWC, MIT).
Residuals: log of measured over predicted time of the shipped cost model with the row's application
left out of training, divided by the standard deviation that the model states. Fitted: the variance
shares, by maximum likelihood of those residuals (``python -m lab site-simulation --train``). Chosen
by hand: the deviations that platforms and changes add, for which there is no public data. Figures
of held-out applications come from shares fitted without them (docs/figures-history.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.predictor.core.arrays import Floats

SEVERAL = 5
"""Number of finished runs from which on a program's intervals have their own factor."""
PHASES = 3
"""Number of phases of a program's history, see ``phase``."""


def phase(runs: int) -> int:
    """Return the phase of a program after ``runs`` finished runs: 0 for none, 1 for 1 to 4, 2 for
    more."""
    return 0 if not runs else 1 if runs < SEVERAL else 2


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of a forecast's error in log time.

    The shares (``program`` to ``cell``) are fractions of the forecast's own squared standard
    deviation; the other deviations are standard deviations of log time.
    """

    program: float
    """Share of the error variance that all runs of a program have in common."""
    kind: float
    """Share common to a program's runs on one kind of device (CPU or GPU)."""
    family: float
    """Share common to a program's runs on devices of one vendor or generation."""
    platform: float
    """Share common to a program's runs on one platform."""
    part: float
    """Share common to runs of one part of the program (a kernel, a set of arguments)."""
    part_on_kind: float
    """Share common to runs of one part on one kind of device."""
    row: float
    """Share common to runs of one part at one size and number of cores or GPUs."""
    row_on_kind: float
    """Share common to runs of one part, size and number of units on one kind of device."""
    cell: float
    """Share of one part, size and number of units on one platform: no other cell informs it."""
    length: float = 2.0
    """Distance in log size, log units and log nodes at which two rows share exp(-1) of the ``row``
    variance."""
    run_noise: float = 0.08
    """Standard deviation of log time between two runs of one cell, before runs of the program are
    seen."""
    site_kind: float = 0.15
    """Standard deviation of the error that all programs of a site share on one kind of device."""
    site_platform: float = 0.15
    """Standard deviation of the error that all programs of a site share on one platform.

    This deviation and ``site_kind`` are scaled up where many programs agree.
    """
    change: float = 0.7
    """Standard deviation of log time across a detected change: a factor of two either way."""
    interval: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Factors on the half width of 90 % intervals, by ``phase``."""

    def factor(self, runs: int) -> float:
        """Return the factor on the half width of a 90 % interval after ``runs`` runs of the
        program."""
        return self.interval[phase(runs)]

    @property
    def total(self) -> float:
        """Return the sum of the variance shares; 1 keeps the forecast's own interval for a first
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
"""Variance components that Berth ships; the shares add up to 1.

A forecast's interval is therefore unchanged before any job ends. Fitted on all nine applications
the shares add up to 0.82, with interval factors of 0.96, 0.61 and 0.72. Jobs of a site differ more
than kernels do, so factors of 0.75 are shipped and online levels correct the remainder.
"""


JOB_DEVIATION = 0.1
"""Standard deviation of the log time of a program's jobs around that of its pilot run, on every
platform alike."""
LEAST_DEVIATION = 0.02
"""Smallest standard deviation of log time that a forecast is taken to have."""


class Hardware(NamedTuple):
    """A platform with its kind (CPU or GPU) and its vendor or generation."""

    platform: str
    kind: str = ""
    """``cpu`` or ``gpu``."""
    family: str = ""
    """Vendor or generation of the device; empty: only the kind is known."""


class RunShape(NamedTuple):
    """Part of the program, problem size and resources by which runs of a program are
    distinguished."""

    part: str = ""
    log_size: float = 0.0
    log_units: float = 0.0
    """Log of the number of cores, or of GPUs."""
    log_nodes: float = 0.0
    """Log of the number of nodes over the number of the program's main (profiled) run."""


class Cell(NamedTuple):
    """The platform, size and resources of runs that differ by run-to-run noise only.

    Epochs count the detected changes of the program and of the platform.
    """

    place: Hardware
    row: RunShape
    deviation: float
    """Standard deviation of log time that the forecast states."""
    epoch: int = 0
    """Epoch of the program: increases by one with each detected change of the program."""
    place_epoch: int = 0
    """Epoch of the platform: increases by one with each detected change of the platform."""
    shared_deviation: float = 0.0
    """Part of ``deviation`` that the forecast states to be common to all platforms: how long the
    program itself takes."""
    job_deviation: float = 0.0
    """Standard deviation by which the program's jobs differ from its pilot run, on all platforms
    alike; it is not in ``deviation``. 0: there was no pilot run."""
    is_measured: bool = False
    """Whether the forecast's time was measured here. A run that differs from it shows that the job
    differs from the pilot run, not that forecasts for other platforms are wrong."""


@dataclass(frozen=True, slots=True)
class RunResidual:
    """A finished job: its platform and resources, and the log of its time over the forecast."""

    cell: Cell
    log_residual: float
    """Log of the job's run time over the time of the forecast without learning."""
    censored: bool = False
    """Whether the time limit killed the job, so that its full run time would have been longer."""
    job: str = ""
    clock_deviation: float = 0.0
    """Standard deviation of log time by which the accounting rounded the run time."""


def covariance(left: Sequence[Cell], right: Sequence[Cell], parts: Components) -> Floats:
    """Return the [left, right] covariance of the forecast's log errors between two lists of cells
    of one program."""
    same = _Same(left, right)
    kind = same.of([c.place.kind for c in left], [c.place.kind for c in right])
    family = same.of([c.place[1:] for c in left], [c.place[1:] for c in right])
    platform = same.of([c.place.platform for c in left], [c.place.platform for c in right])
    part = same.of([c.row.part for c in left], [c.row.part for c in right])
    apart = same.apart([c.row.log_size for c in left], [c.row.log_size for c in right])
    apart = apart + same.apart([c.row.log_units for c in left], [c.row.log_units for c in right])
    apart = apart + same.apart([c.row.log_nodes for c in left], [c.row.log_nodes for c in right])
    row = part * np.exp(-apart / parts.length)
    similar = (
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
    ours, theirs = (np.array([_own_deviation(c) for c in cells]) for cells in (left, right))
    common = np.minimum.outer(
        [c.shared_deviation for c in left], [c.shared_deviation for c in right]
    )
    # The smaller variance: the error of a narrow forecast is not scaled up to a wide one's.
    return np.asarray(similar * np.minimum.outer(ours, theirs) ** 2 + common**2)


def job_covariance(left: Sequence[Cell], right: Sequence[Cell]) -> Floats:
    """Return the [left, right] covariance of log times by which jobs differ from the pilot run."""
    return np.asarray(np.outer([c.job_deviation for c in left], [c.job_deviation for c in right]))


def _own_deviation(cell: Cell) -> float:
    """Return the standard deviation of the part of a forecast's log error that all platforms do not
    share."""
    own = cell.deviation**2 - cell.shared_deviation**2
    return max(math.sqrt(max(own, 0.0)), LEAST_DEVIATION)


def changes(left: Sequence[Cell], right: Sequence[Cell], parts: Components) -> Floats:
    """Return the [left, right] covariance of log times that detected changes of the program add.

    Cells of one epoch (time between two changes) share one unknown offset; the matrix is 0 where
    all cells are of epoch 0.
    """
    if not any(c.epoch for c in (*left, *right)):
        return np.zeros((len(left), len(right)))
    same = _Same(left, right).of([c.epoch for c in left], [c.epoch for c in right])
    return np.asarray(parts.change**2 * same)


@dataclass(frozen=True, slots=True)
class _Same:
    """Two lists of cells that are compared pair by pair."""

    left: Sequence[Cell]
    right: Sequence[Cell]

    def of(self, ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> Floats:
        """Return [left, right]: 1 where the keys of the two cells are equal, else 0."""
        codes: dict[Hashable, int] = {}
        a = np.array([codes.setdefault(key, len(codes)) for key in ours], dtype=np.int64)
        b = np.array([codes.setdefault(key, len(codes)) for key in theirs], dtype=np.int64)
        return np.equal.outer(a, b).astype(np.float64)

    def apart(self, ours: Sequence[float], theirs: Sequence[float]) -> Floats:
        """Return [left, right] absolute differences of two lists of numbers."""
        return np.asarray(np.abs(np.subtract.outer(np.array(ours), np.array(theirs))))
