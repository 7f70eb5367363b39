"""Forecasts from the true run times themselves, exact or with an error of a known size."""

from __future__ import annotations

import math

import numpy as np

from berth.policies.replay.trace import Trace
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Bound, Interval, Prediction, PredictionCurve
from berth.predictor.core.sizes import SizeLaw

Z_90 = 1.6449
"""Half of a 90 % interval in standard deviations."""


class Oracle:
    """Predictions of ``trace.runtime_on``, each times ``exp(N(0, log_error))``.

    The error of a job on a platform is one draw of ``seed``, and the interval says its size.
    """

    def __init__(self, trace: Trace, *, log_error: float = 0.0, seed: int = 0) -> None:
        self._columns = dict(sorted(trace.runtime_on.items()))
        self._gpus = trace.gpus
        draws = np.random.default_rng(seed).standard_normal((len(trace), len(self._columns)))
        self._factors = np.exp(log_error * draws)
        self._half = math.exp(Z_90 * log_error)

    def forecast(self, job: int) -> Forecast | None:
        """None: no platform's time is known."""
        gpus = int(self._gpus[job])
        curves = {}
        for place, (platform, column) in enumerate(self._columns.items()):
            if not np.isnan(column[job]):
                mid = max(float(column[job]) * float(self._factors[job, place]), 1e-3)
                curves[platform] = self._curve(platform, mid, gpus)
        if not curves:
            return None
        return Forecast(
            workload=f"job{job}", kind="history", digest=f"oracle:{job}", bundle="oracle",
            targets=("cpu", "cuda") if gpus == 0 else ("cuda",), architecture="x86_64",
            instruction_sets=(), threads=1, ranks=1, gpus=gpus, container=None,
            reference_platform=next(iter(curves)), reference_runtime_s=None,
            sizes=SizeLaw(None, None), curves=curves,
        )  # fmt: skip

    def _curve(self, platform: str, mid: float, gpus: int) -> PredictionCurve:
        one = Interval(1.0, 1.0, 1.0)
        return PredictionCurve(
            (
                Prediction(
                    workload="oracle", platform=platform, cores=0 if gpus else 1, gpus=gpus,
                    basis=Basis.CALIBRATED, speedup=one,
                    runtime_s=Interval(mid / self._half, mid, mid * self._half),
                    memory_bytes=Interval(0.0, 0.0, 1.0), energy_j=None, bound=Bound.UNKNOWN,
                ),
            )
        )  # fmt: skip
