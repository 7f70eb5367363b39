"""Finished jobs of a made-up site, put into a store as the daemon would."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from made_forecasts import around, curve, program

from berth.plugin.learning.learner import Learner
from berth.plugin.store import Store
from berth.plugin.store.records import DecisionRecord, ForecastRecord, PlacedRun, WorkloadRecord
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import Basis, Interval

NOW_S = 1_800_000_000.0
CPU, GPU = "quartz", "lassen-v100"


def forecast(
    name: str,
    seconds: Mapping[str, float],
    *,
    width: float = 1.2,
    basis: Basis = Basis.CALIBRATED,
    abstained: str | None = None,
) -> Forecast:
    """``seconds`` by platform, within a factor of ``width``; one and two cores or GPUs."""

    reference_s = seconds.get(CPU, 1.0)
    memory = Interval(1e9, 1e9, 2e9)
    curves = {
        platform: curve(
            name, platform, dict.fromkeys((1, 2), around(mid, width)), gpu=platform != CPU,
            memory=memory, reference_s=reference_s, basis=basis, abstained=abstained,
        )
        for platform, mid in seconds.items()
    }  # fmt: skip
    return program(name, curves, reference=CPU, reference_s=reference_s)


class SiteJobs:
    """Puts workloads and finished jobs into a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = 0

    def workload(self, one: Forecast, owner: str = "", *, created_s: float = 0.0) -> None:
        self.store.add(
            WorkloadRecord(one.workload, one.kind, one.digest, "{}", owner, created_s), replace=True
        )
        self.store.put_forecast(ForecastRecord(one.workload, one.bundle, one.to_json(), 0.0))

    def job(
        self,
        workload: str,
        seconds: float | None,
        *,
        platform: str = CPU,
        user: str = "alice",
        state: str = "completed",
        at_s: float | None = None,
        job_id: str | None = None,
        units: int = 1,
        size: float | None = None,
        predicted: bool = True,
        **other: object,
    ) -> str:
        """A job that ran so long; its id. Jobs end one minute after the other.

        ``predicted``: whether its decision had a time for the place that could be acted on.
        """
        self.count += 1
        name = job_id or str(1000 + self.count)
        end_s = NOW_S - 86_400 + 60.0 * self.count if at_s is None else at_s
        ran_s = seconds or 0.0
        decision = f"d{name}"
        row = {
            "candidate": platform, "platform": platform, "nodes": 1,
            "cores": 1 if platform != CPU else units, "gpus": 0 if platform == CPU else units,
        }  # fmt: skip
        row |= {"score": 1.0, "runtime_s": [1.0, 2.0, 3.0]} if predicted else {"code": "prior-only"}
        self.store.decisions.add(
            [
                DecisionRecord(
                    decision, end_s - 1000, "host", "slurm", user, None, "auto", workload,
                    "enforce", "edit", "placed", "because", platform, "test", "fastest", "", 1,
                    request=json.dumps({"size": size}), ranked=json.dumps([row]),
                )
            ]
        )  # fmt: skip
        values: dict[str, object] = {
            "submit_s": end_s - ran_s - 10, "start_s": end_s - ran_s, "end_s": end_s,
            "elapsed_s": seconds, "partition": platform, "platform": platform,
            "candidate": platform, **other,
        }  # fmt: skip
        self.store.outcomes.put(
            [PlacedRun("test", name, user, state, decision=decision, workload=workload, **values)]  # type: ignore[arg-type]
        )
        return name


def factor(store: Store, workload: str, user: str = "", platform: str = CPU) -> float:
    """By what factor the learnt time of a workload differs from the one without learning."""
    learnt = {(r.workload, r.user): r for r in store.learning.forecasts(workload)}
    before = Forecast.from_json(store.forecasts(workload)[0].document)
    if (workload, user) not in learnt:
        return 1.0
    after = Forecast.from_json(learnt[workload, user].document)
    a, b = after.runtime_at(platform, 1), before.runtime_at(platform, 1)
    assert a is not None
    assert b is not None
    return a.mid / b.mid


def width(store: Store, workload: str, user: str = "", platform: str = CPU) -> float:
    """Half the learnt 90 % interval of log time."""
    learnt = {(r.workload, r.user): r for r in store.learning.forecasts(workload)}
    found = Forecast.from_json(learnt[workload, user].document).runtime_at(platform, 1)
    assert found is not None
    return math.log(found.high / found.low) / 2


def learner(store: Store, *, everybody: bool = False) -> Learner:
    """Return a learner of that store at the jobs' present time."""
    return Learner(store, everybody=everybody, clock=lambda: NOW_S)
