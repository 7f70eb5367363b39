"""Evidence: a finished job as the predictor learns from it, and as a run of the posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from berth.predictor.core.forecast import Forecast
from berth.predictor.core.intervals import NORMAL_90
from berth.predictor.core.prediction import Interval
from berth.predictor.learning.cells import Cell, Place, Row, Run


@dataclass(frozen=True, slots=True)
class Evidence:
    """One finished job of a workload. Plain data, whatever scheduler it is from."""

    job: str
    """Unique at the site."""
    user: str
    workload: str
    """Name of the workload."""
    digest: str
    """Digest of the workload's content: evidence of another content says nothing of this one."""
    platform: str
    cores: int
    gpus: int
    size: float | None
    runtime_s: float
    ended_s: float
    """Unix time."""
    censored: bool = False
    """Whether its time limit killed it: it would have taken longer than ``runtime_s``."""
    peak_memory_bytes: float | None = None
    epoch: int = 0
    """Epoch of the workload: goes up with each detected change of it."""
    place_epoch: int = 0
    """Epoch of the platform."""
    nodes: int | None = None
    """Nodes that it ran on; None: as many as the forecast's curves are of."""

    @property
    def units(self) -> int:
        """Return GPUs, or cores where it had none."""
        return self.gpus or self.cores


def place_of(platform: str, forecast: Forecast, families: Mapping[str, str]) -> Place | None:
    """Return what the platform is; None: nothing is forecast there. ``families``: vendors by
    name."""
    curve = forecast.curves.get(platform)
    if curve is None:
        return None
    kind = "gpu" if curve.points[0].gpus else "cpu"
    return Place(platform, kind, families.get(platform, ""))


def cell_of(
    forecast: Forecast, place: Place, units: int, size: float | None,
    *, nodes: int | None = None, epoch: int = 0, place_epoch: int = 0,
) -> Cell | None:  # fmt: skip
    """Return the cell of a run with so many cores or GPUs in all; None: nothing is forecast for
    it."""
    main = forecast.main_nodes
    ran_on = main if nodes is None or forecast.nodes is None else nodes
    interval = forecast.runtime_at(place.platform, units, size, ran_on)
    if interval is None or interval.mid <= 0:
        return None
    own = forecast.sizes.size
    if forecast.nodes is not None:
        size, units = forecast.nodes.size(size, ran_on), units * main // ran_on
    asked = size if size is not None else own
    log_size = math.log(asked) if asked else 0.0
    return Cell(
        place,
        Row("", log_size, math.log(max(units, 1)), math.log(ran_on / main)),
        log_deviation(interval),
        epoch,
        place_epoch,
    )


def run_of(evidence: Evidence, forecast: Forecast, families: Mapping[str, str]) -> Run | None:
    """Return the job beside what ``forecast``, without learning, predicts of it; None: it predicts
    nothing."""
    place = place_of(evidence.platform, forecast, families)
    if place is None:
        return None
    cell = cell_of(
        forecast, place, evidence.units, evidence.size,
        nodes=evidence.nodes, epoch=evidence.epoch, place_epoch=evidence.place_epoch,
    )  # fmt: skip
    interval = forecast.runtime_at(
        evidence.platform, evidence.units, evidence.size, evidence.nodes or forecast.main_nodes
    )
    if cell is None or interval is None:
        return None
    residual = math.log(evidence.runtime_s / interval.mid)
    return Run(cell, residual, evidence.censored, evidence.job)


def log_deviation(interval: Interval) -> float:
    """Return the standard deviation of log time that a 90 % interval states."""
    low = max(interval.low, interval.mid * 1e-6)
    return max(0.0, math.log(max(interval.high, low) / low) / 2 / NORMAL_90)
