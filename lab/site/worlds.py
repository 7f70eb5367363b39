"""AIWC's 15 devices as a site: each application in turn arrives unseen.

Nested: forecasts of an application are by a cost model without it, their stated deviations by
residuals of the others, and what the posterior assumes (shares of the error, interval factors)
by the others, each forecast by a model that had seen neither it nor the arriving application.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.cells import (
    JOB_DEVIATION,
    LEAST_DEVIATION,
    Cell,
    Hardware,
    RunShape,
)
from lab.datasets import aiwc
from lab.ground.resume import Resume
from lab.relative import families
from lab.relative.data import aiwc_rows
from lab.relative.nested import Fold, nested
from lab.relative.widths import log_widths

CPU_KINDS = frozenset(("cpu", "manycore"))
SIZES = {name: n * math.log(8.0) for n, name in enumerate(("tiny", "small", "medium", "large"))}
"""Named sizes of AIWC fit one cache level after the next: about a factor of eight apart."""


@dataclass(frozen=True, slots=True)
class World:
    """Rows x devices of one application; nothing of it was used to make the forecasts."""

    application: str
    places: tuple[Hardware, ...]
    rows: tuple[RunShape, ...]
    log_forecast: Floats
    """Log seconds, without learning."""
    deviation: Floats
    """Of those, as the forecaster states it."""
    log_seconds: Floats
    """As measured."""
    noise: Floats
    """Deviation of log time between runs, as measured."""
    piloted_on: str = ""
    """The platform whose times the forecast has from the pilot run."""
    job_deviation: float = JOB_DEVIATION
    """By how much jobs are taken to differ from the pilot run."""

    def cell(self, row: int, device: int) -> Cell:
        """Return the row on the device, as the posterior takes it."""
        place, job_deviation = self.places[device], self.job_deviation if self.piloted_on else 0.0
        return Cell(
            place, self.rows[row], float(self.deviation[row, device]),
            job_deviation=job_deviation, is_measured=place.platform == self.piloted_on,
        )  # fmt: skip

    def cells(self, row: int) -> list[Cell]:
        """Return one cell for each device."""
        return [self.cell(row, device) for device in range(len(self.places))]

    @property
    def log_residual(self) -> Floats:
        """Return [rows, devices] log of measured over forecast."""
        return np.asarray(self.log_seconds - self.log_forecast)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One application, and the others as they would have arrived without it."""

    world: World
    others: tuple[World, ...]


def arrivals(
    seed: int, resume: Resume | None = None, advance: Callable[[], None] = lambda: None
) -> list[Arrival]:
    """Return an arrival for each application, with the shipped cost model; ``advance`` is called
    after each of 45 fits."""
    rows = aiwc_rows()
    folds = nested(rows, families.COST_MODEL, seed=seed, resume=resume, advance=advance)
    return [_arrival(fold) for fold in folds]


def _arrival(fold: Fold) -> Arrival:
    stated = _deviation(fold.held, fold.train, fold.log_inner)
    world = _world(fold.held, fold.log_predicted, stated, _noise()[list(fold.index)])
    noise = _noise()[[i for i in range(len(_noise())) if i not in set(fold.index)]]
    others = []
    for name in sorted(set(fold.train.applications)):
        mine = np.array([one == name for one in fold.train.applications])
        rest, held = np.flatnonzero(~mine).tolist(), np.flatnonzero(mine).tolist()
        asked = fold.train.take(held)
        stated = _deviation(asked, fold.train.take(rest), fold.log_inner[rest])
        others.append(_world(asked, fold.log_inner[held], stated, noise[held]))
    return Arrival(world, tuple(others))


def _deviation(asked: Rows, known: Rows, log_held_out: Floats) -> Floats:
    """Return the deviations that a bundle trained on ``known`` states, [asked rows, devices]."""
    widths = log_widths(known, log_held_out)
    stated = np.array([widths[name] for name in asked.platforms]) / NORMAL_90
    return np.tile(stated, (len(asked), 1))


def _world(rows: Rows, log_forecast: Floats, deviation: Floats, noise: Floats) -> World:
    forecast, stated = log_forecast.copy(), deviation.copy()
    reference = rows.reference_column
    forecast[:, reference] = rows.log_reference  # the pilot ran there
    stated[:, reference] = LEAST_DEVIATION
    return World(
        rows.applications[0],
        tuple(map(_place, rows.platforms)),
        tuple(
            RunShape(kernel, SIZES.get(size, 0.0))
            for kernel, size in zip(rows.kernels, rows.sizes, strict=True)
        ),
        forecast,
        stated,
        rows.log_seconds,
        noise,
        rows.platforms[reference],
    )


def _place(device: str) -> Hardware:
    """Return the device: CPUs are one kind, GPUs the other; families are vendors and many-core
    CPUs."""
    kind = aiwc.KINDS[device]
    return Hardware(device, "cpu" if kind in CPU_KINDS else "gpu", kind)


def _noise() -> Floats:
    """Return rows x devices: deviation of log time between runs, at most a third."""
    measured = aiwc.rows()
    spread = np.nan_to_num(measured.spread_seconds / measured.seconds)
    return np.asarray(np.clip(spread, 0.005, 0.33))
