"""Forecasts of programs made up for tests: no predictor is needed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from berth.plugin.store import ForecastRecord, Store, WorkloadRecord
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


def around(mid: float, factor: float = 1.2) -> Interval:
    """``mid`` with a factor on both sides."""
    return Interval(mid / factor, mid, mid * factor)


def curve(
    workload: str,
    platform: str,
    times_s: Mapping[int, Interval],
    *,
    gpu: bool,
    memory: Interval,
    reference_s: float,
    basis: Basis = Basis.CALIBRATED,
    abstained: str | None = None,
) -> PredictionCurve:
    """The times by cores, or by GPUs; ``reference_s``: the time of which speedups are."""
    return PredictionCurve(
        tuple(
            Prediction(
                workload=workload,
                platform=platform,
                cores=1 if gpu else units,
                gpus=units if gpu else 0,
                basis=basis,
                speedup=Interval(*(reference_s / end for end in (time.high, time.mid, time.low))),
                runtime_s=time,
                memory=MemoryUse(memory, memory if gpu else None),
                energy_j=None,
                bound=Bound.MEMORY,
                abstained=abstained,
            )
            for units, time in sorted(times_s.items())
        )
    )


def program(
    name: str,
    curves: Mapping[str, PredictionCurve],
    *,
    reference: str,
    reference_s: float,
    digest: str = "",
    bundle: str = "test",
    peak_bytes: float = 1e9,
) -> Forecast:
    """A program of one process that runs on CPUs and with CUDA; ``curves`` by platform."""
    return Forecast(
        workload=name,
        kind="program",
        digest=digest or f"sha256:{name}",
        bundle=bundle,
        targets=("cpu", "cuda"),
        architecture="x86_64",
        instruction_sets=(),
        threads=1,
        ranks=1,
        gpus=0,
        container=None,
        reference_platform=reference,
        reference_runtime_s=reference_s,
        sizes=SizeGrowth(size=None, peak_memory_bytes=peak_bytes),
        curves=curves,
    )


def put(store: Store, *forecasts: Forecast, owner: str = "tester", created_s: float = 0.0) -> None:
    """Store forecasts, each under a workload made up for it; ``created_s`` 0: now."""
    made_s = created_s or time.time()
    for one in forecasts:
        record = WorkloadRecord(one.workload, one.kind, one.digest, "{}", owner, made_s)
        store.add(record, replace=True)
        store.put_forecast(ForecastRecord(one.workload, one.bundle, one.to_json(), made_s))
