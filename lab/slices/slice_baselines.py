"""Baselines of the slice predictor, evaluated on the same split in the same run.

* mean per slice: the same slow-down for everybody;
* extra trees on the full-GPU profile of the one load (the data sets' own baseline), and, for
  fairness, on everything that our sweep sees;
* batch equivalence: a slice of share s does batch b as the whole GPU does batch b / s (no model).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

from berth.predictor.families.slices.from_use import most_log_slowdown
from lab.datasets.mig import WHOLE
from lab.ground.evaluate import Family
from lab.ground.table import Floats
from lab.slices.slice_cases import Case, SliceRows

TREES = 300
_FAMILIES = ("densenet", "resnet", "vgg")


def families(rows: SliceRows) -> tuple[frozenset[str], ...]:
    """Return ParvaGPU's models as one set per architecture family."""
    found: dict[str, set[str]] = {}
    for name in rows.names:
        family = next((f for f in _FAMILIES if name.startswith(f)), name)
        found.setdefault(family, set()).add(name)
    return tuple(frozenset(members) for members in found.values())


def training_baselines(seed: int) -> tuple[Family[SliceRows], ...]:
    """Return the baselines for MISO; their ``what`` names the data that they use."""
    return (
        MEANS,
        Family("(1 - u) + u / share", _by_limit, "SM utilisation u on the whole GPU"),
        _trees(_counters, "one step time, utilisation, power, reserved memory", seed),
        EQUIVALENCE,
    )


def inference_baselines(seed: int) -> tuple[Family[SliceRows], ...]:
    """Return the baselines for ParvaGPU; their ``what`` names the data that they use."""
    return (
        MEANS,
        _trees(_load, "batch, processes, throughput and latency of the one load", seed),
        _trees(_everything, "the whole sweep as features", seed),
        EQUIVALENCE,
    )


def _means(learnt: SliceRows, asked: SliceRows, _: int) -> Floats:
    slowdown = np.exp(learnt.log_slowdown)
    return np.log([slowdown[learnt.slices == g].mean() for g in asked.slices])


def _by_limit(_: SliceRows, asked: SliceRows, _seed: int) -> Floats:
    shares = zip(asked.cases, asked.slices.tolist(), strict=True)
    return np.array(
        [most_log_slowdown(c.point.sm_utilization or 1.0, g / WHOLE) for c, g in shares]
    )


def _trees(features: Callable[[Case], list[float]], what: str, seed: int) -> Family[SliceRows]:
    def table(rows: SliceRows) -> Floats:
        return np.array(
            [[float(g), *features(c)] for c, g in zip(rows.cases, rows.slices, strict=True)]
        )

    def predict(learnt: SliceRows, asked: SliceRows, _: int) -> Floats:
        trees = ExtraTreesRegressor(TREES, random_state=seed, n_jobs=1)
        return np.asarray(trees.fit(table(learnt), learnt.log_slowdown).predict(table(asked)))

    return Family("extra trees", predict, what)


def _counters(case: Case) -> list[float]:
    p = case.point
    found = (p.power_w, p.sm_utilization, p.memory_utilization, case.reserved_mib)
    return [p.batch, p.seconds, *(math.nan if v is None else v for v in found)]


def _load(case: Case) -> list[float]:
    p = case.point
    return [p.batch, float(p.processes), p.batch / p.seconds, p.seconds]


def _everything(case: Case) -> list[float]:
    """Return the one load, and throughput at it relative to what the sweep shows elsewhere."""
    p = case.point
    rate = p.processes * p.batch / p.seconds
    rates = {
        (q.batch, q.processes): q.processes * q.batch / q.seconds for q in case.workload.points
    }
    best = max(rates.values())
    others = [(p.batch * factor, p.processes) for factor in (0.25, 0.5, 2, 4, 8)]
    others += [(p.batch, n) for n in range(1, 6)]
    return [
        *_load(case),
        math.log(rate / best),
        *(math.log(rates.get(other, best) / rate) for other in others),
    ]


def _equivalence(_: SliceRows, asked: SliceRows, _seed: int) -> Floats:
    return np.array(
        [_same_waves(c, g) for c, g in zip(asked.cases, asked.slices.tolist(), strict=True)]
    )


def _same_waves(case: Case, slices: int) -> float:
    point = case.point
    mine = sorted(
        (p for p in case.workload.points if p.processes == point.processes), key=lambda p: p.batch
    )
    log_b = np.log([p.batch for p in mine])
    log_t = np.maximum.accumulate(np.log([p.seconds for p in mine]))
    wanted = math.log(point.batch * WHOLE / slices)
    reached = float(np.interp(wanted, log_b, log_t)) + max(wanted - float(log_b[-1]), 0.0)
    return reached - math.log(point.seconds)


MEANS: Family[SliceRows] = Family("mean per slice", _means, "nothing")
EQUIVALENCE: Family[SliceRows] = Family(
    "batch equivalence", _equivalence, "times on the whole GPU over batches"
)
