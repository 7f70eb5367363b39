"""One application as it arrives at a site: its rows, their forecasts and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.learning.cells import Cell, Place, Row

CPU_KINDS = frozenset(("cpu", "manycore"))


@dataclass(frozen=True, slots=True)
class World:
    """Rows x devices of one application; nothing of it was used to make the forecasts."""

    application: str
    places: tuple[Place, ...]
    rows: tuple[Row, ...]
    log_forecast: Floats
    """Log seconds, without learning."""
    deviation: Floats
    """Of those, as the forecaster states it."""
    log_seconds: Floats
    """As measured."""
    noise: Floats
    """Deviation of log time between runs, as measured."""

    def cell(self, row: int, device: int) -> Cell:
        """For the posterior."""
        return Cell(self.places[device], self.rows[row], float(self.deviation[row, device]))

    def cells(self, row: int) -> list[Cell]:
        """One for each device."""
        return [self.cell(row, device) for device in range(len(self.places))]

    @property
    def log_residual(self) -> Floats:
        """Rows x devices: measured over forecast."""
        return np.asarray(self.log_seconds - self.log_forecast)


def places_of(devices: Sequence[str], kinds: Mapping[str, str]) -> tuple[Place, ...]:
    """CPUs are one kind of device, GPUs the other; families are vendors and many-core CPUs."""
    return tuple(
        Place(name, "cpu" if kinds[name] in CPU_KINDS else "gpu", kinds[name]) for name in devices
    )


def rows_of(
    kernels: Sequence[str], sizes: Sequence[str], order: Mapping[str, float]
) -> tuple[Row, ...]:
    """``order``: the log of each named size."""
    return tuple(Row(k, order.get(s, 0.0)) for k, s in zip(kernels, sizes, strict=True))
