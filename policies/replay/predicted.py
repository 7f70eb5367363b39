"""Predicted run times for the jobs of a trace."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from copy import copy
from typing import Protocol

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.policies.replay.trace import Floats, Ints
from berth.policies.values import Candidate
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import SizeGrowth

_FORECASTS = 20_000
_LEAST_S = 1e-3
_ONE = Interval(1.0, 1.0, 1.0)
_NOTHING = Interval(0.0, 0.0, 1.0)
"""Memory interval of jobs without a memory prediction: it fits on every node."""


class TraceForecasts(Protocol):
    """The source of the forecasts for a trace's jobs."""

    def forecast(self, job: int) -> Forecast | None:
        """Return the forecast for the job in this row of the trace; None: there is no
        prediction."""
        ...


class ForecastColumns:
    """Forecasts from columns of predicted run times by platform, [jobs] in seconds; NaN: no
    prediction."""

    def __init__(
        self,
        times: Mapping[str, Floats],
        candidates: Collection[Candidate],
        *,
        spread: float | Floats,
    ) -> None:
        """Take ``times`` by platform; ``spread``: ratio of an interval's upper end to its central
        value, of all jobs or [jobs]."""
        self._gpu = {candidate.platform: candidate.is_gpu for candidate in candidates}
        self._architecture = next((candidate.architecture for candidate in candidates), "x86_64")
        self._times = {name: times[name] for name in sorted(times) if name in self._gpu}
        spreads = np.broadcast_to(np.asarray(spread, float), len(next(iter(times.values()), ())))
        self._rows: Floats = np.array([*self._times.values(), spreads], float).T.copy()
        self._known: BoundedCache[bytes, Forecast] = BoundedCache(max(_FORECASTS, len(self._rows)))
        """Forecasts by the bytes of a row, because NaN does not equal itself as a key."""

    def rows(self, rows: Ints) -> ForecastColumns:
        """Return the forecasts of the trace's chosen rows; both share the forecasts made so far."""
        chosen = copy(self)
        chosen._rows = self._rows[rows]
        return chosen

    def forecast(self, job: int) -> Forecast | None:
        """Return the forecast for the job in this row of the trace; None: no platform has a
        prediction."""
        if not self._times:
            return None
        row = self._rows[job]
        key = row.tobytes()
        known = self._known.get(key)
        if known is None and not np.isnan(row[:-1]).all():
            *mids, spread = row.tolist()
            known = self._known.put(key, self._forecast_of(tuple(mids), spread))
        return known

    def _forecast_of(self, times: tuple[float, ...], spread: float) -> Forecast:
        curves = {
            name: PredictionCurve((self._point(name, max(mid, _LEAST_S), spread),))
            for name, mid in zip(self._times, times, strict=True)
            if not math.isnan(mid)
        }
        return Forecast(
            workload="job", kind="history", digest=repr((times, spread)), bundle="",
            targets=("cpu", "cuda", "hip"), architecture=self._architecture,
            instruction_sets=(), threads=1, ranks=1, gpus=0, container=None,
            reference_platform=next(iter(curves)), reference_runtime_s=None,
            sizes=SizeGrowth(None, None), curves=curves,
        )  # fmt: skip

    def _point(self, platform: str, mid: float, spread: float) -> Prediction:
        on_gpu = self._gpu[platform]
        return Prediction(
            workload="job", platform=platform, cores=0 if on_gpu else 1, gpus=int(on_gpu),
            basis=Basis.CALIBRATED, speedup=_ONE,
            runtime_s=Interval(mid / spread, mid, mid * spread),
            memory=MemoryUse(_NOTHING, _NOTHING if on_gpu else None),
            energy_j=None, bound=Bound.UNKNOWN,
        )  # fmt: skip
