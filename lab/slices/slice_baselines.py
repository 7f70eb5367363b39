"""Baselines of the slice predictor, evaluated on the same split in the same run.

* mean per slice: the same slow-down for everybody;
* batch equivalence: a slice of share s does batch b as the whole GPU does batch b / s (no model).
"""

from __future__ import annotations

import math

import numpy as np

from berth.predictor.families.slices.from_use import most_log_slowdown
from lab.datasets.mig import WHOLE
from lab.ground.evaluate import Family
from lab.ground.table import Floats
from lab.slices.slice_cases import Case, SliceRows

_FAMILIES = ("densenet", "resnet", "vgg")


def families(rows: SliceRows) -> tuple[frozenset[str], ...]:
    """Return ParvaGPU's models as one set per architecture family."""
    found: dict[str, set[str]] = {}
    for name in rows.names:
        family = next((f for f in _FAMILIES if name.startswith(f)), name)
        found.setdefault(family, set()).add(name)
    return tuple(frozenset(members) for members in found.values())


def training_baselines() -> tuple[Family[SliceRows], ...]:
    """Return the baselines for MISO; their ``what`` names the data that they use."""
    by_limit = Family("(1 - u) + u / share", _by_limit, "SM utilisation u on the whole GPU")
    return MEANS, by_limit, EQUIVALENCE


def inference_baselines() -> tuple[Family[SliceRows], ...]:
    """Return the baselines for ParvaGPU; their ``what`` names the data that they use."""
    return MEANS, EQUIVALENCE


def _means(learnt: SliceRows, asked: SliceRows, _: int) -> Floats:
    slowdown = np.exp(learnt.log_slowdown)
    return np.log([slowdown[learnt.slices == g].mean() for g in asked.slices])


def _by_limit(_: SliceRows, asked: SliceRows, _seed: int) -> Floats:
    shares = zip(asked.cases, asked.slices.tolist(), strict=True)
    return np.array(
        [most_log_slowdown(c.point.sm_utilization or 1.0, g / WHOLE) for c, g in shares]
    )


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
