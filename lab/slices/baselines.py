"""What the slice predictor is measured against, on the same split in the same run.

* mean per slice: the same slow-down for everybody;
* extra trees on the full-GPU profile of the one load (the data sets' own baseline), and, for
  fairness, told everything that our sweep is told;
* batch equivalence: a slice of share s does batch b as the whole GPU does batch b / s (no model).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.slices.workload import Point
from lab.slices.data import Case, Rows, inference_cases, training_cases
from lab.slices.held_out import Held

TREES = 300
_FAMILIES = ("densenet", "resnet", "vgg")


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival's held-out predictions."""

    name: str
    told: str
    held: list[Held]


def families(rows: Rows) -> tuple[frozenset[str], ...]:
    """ParvaGPU's models by architecture family."""
    found: dict[str, set[str]] = {}
    for name in rows.names:
        family = next((f for f in _FAMILIES if name.startswith(f)), name)
        found.setdefault(family, set()).add(name)
    return tuple(frozenset(members) for members in found.values())


def training_rivals(seed: int) -> tuple[Rival, ...]:
    """On MISO."""
    cases = training_cases()
    return (
        _means(cases),
        _trees(cases, _counters, "one step time, utilisation, power, reserved memory", seed),
        _equivalence(cases),
    )


def inference_rivals(seed: int) -> tuple[Rival, ...]:
    """On ParvaGPU."""
    cases = inference_cases()
    return (
        _means(cases),
        _trees(cases, _load, "batch, processes, throughput and latency of the one load", seed),
        _trees(cases, _everything, "the whole sweep as features", seed),
        _equivalence(cases),
    )


def _rows(cases: Sequence[Case]) -> list[tuple[Case, int, float]]:
    return [(c, g, y) for c in cases for g, y in sorted(c.measured.items())]


def _held(rows: Sequence[tuple[Case, int, float]], said: Floats) -> list[Held]:
    return [
        Held(c.model, g, y, float(p), g / 7, 0.0, None)
        for (c, g, y), p in zip(rows, said, strict=True)
    ]


def _means(cases: Sequence[Case]) -> Rival:
    rows = _rows(cases)
    said = np.zeros(len(rows))
    for i, (case, g, _) in enumerate(rows):
        said[i] = math.log(
            np.mean([math.exp(y) for c, h, y in rows if h == g and c.model != case.model])
        )
    return Rival("mean per slice", "nothing", _held(rows, said))


def _trees(
    cases: Sequence[Case], features: Callable[[Case], list[float]], told: str, seed: int
) -> Rival:
    rows = _rows(cases)
    told_of = {id(c): features(c) for c in cases}
    x = np.array([[float(g), *told_of[id(c)]] for c, g, _ in rows])
    y = np.array([value for _, _, value in rows])
    models = np.array([c.model for c, _, _ in rows])
    said = np.zeros(len(rows))
    for name in sorted(set(models)):
        out = models == name
        trees = ExtraTreesRegressor(TREES, random_state=seed, n_jobs=1)
        said[out] = trees.fit(x[~out], y[~out]).predict(x[out])
    return Rival("extra trees", told, _held(rows, said))


def _counters(case: Case) -> list[float]:
    p = case.point
    found = (p.power_w, p.sm_utilization, p.memory_utilization, case.reserved_mib)
    return [p.batch, p.seconds, *(math.nan if v is None else v for v in found)]


def _load(case: Case) -> list[float]:
    p = case.point
    return [p.batch, float(p.processes), p.batch / p.seconds, p.seconds]


def _everything(case: Case) -> list[float]:
    """The one load, and throughput at it relative to what the sweep shows elsewhere."""
    p = case.point
    rate = p.processes * p.batch / p.seconds
    rates = {
        (q.batch, q.processes): q.processes * q.batch / q.seconds for q in case.workload.points
    }
    best = max(rates.values())
    around = [
        math.log(rates.get((p.batch * factor, n), best) / rate)
        for factor in (0.25, 0.5, 2, 4, 8)
        for n in (p.processes,)
    ]
    beside = [math.log(rates.get((p.batch, n), best) / rate) for n in range(1, 6)]
    return [*_load(case), math.log(rate / best), *around, *beside]


def _equivalence(cases: Sequence[Case]) -> Rival:
    rows = _rows(cases)
    said = np.array([_same_waves(c, g) for c, g, _ in rows])
    return Rival("batch equivalence", "times on the whole GPU over batches", _held(rows, said))


def _same_waves(case: Case, slices: int) -> float:
    mine: list[Point] = sorted(
        (p for p in case.workload.points if p.processes == case.point.processes),
        key=lambda p: p.batch,
    )
    log_b = np.log([p.batch for p in mine])
    log_t = np.maximum.accumulate(np.log([p.seconds for p in mine]))
    wanted = math.log(case.point.batch * 7 / slices)
    reached = float(np.interp(wanted, log_b, log_t)) + max(wanted - float(log_b[-1]), 0.0)
    return reached - math.log(case.point.seconds)
