"""Predictions of one workload taken together: runs elsewhere inform the other platforms.

Each prediction has an interval of its own; how their errors go together is measured on public
data (``python -m lab uncertainty`` prints it): GPUs err alike, since what a program does badly
on one it does badly on the next; CPUs hardly, since the pilot was on a CPU already.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from berth.predictor.core.intervals import NORMAL_90, around
from berth.predictor.core.prediction import Basis, Interval, Prediction
from berth.predictor.core.value_of_run import GPU_CORRELATION, OTHER_CORRELATION, REGRET_SHARE
from berth.predictor.families.program.predictor import WIDEST_USEFUL_FACTOR
from berth.predictor.families.relative.joint import Joint

_WIDEST = math.log(WIDEST_USEFUL_FACTOR)


def joint_of(predictions: Sequence[Prediction]) -> Joint:
    """The joint distribution of log times, one platform each. Raises ValueError for a double.

    Intervals that are too wide to be useful count as just too wide: how wide says nothing then.
    """
    names = tuple(p.platform for p in predictions)
    if len(set(names)) != len(names):
        raise ValueError("one prediction a platform")
    gpu = np.array([p.gpus > 0 for p in predictions])
    correlation = np.where(gpu[:, None] & gpu, GPU_CORRELATION, OTHER_CORRELATION)
    np.fill_diagonal(correlation, 1.0)
    spread = np.array(
        [
            0.0 if p.basis is Basis.MEASURED else min(_log_width(p), _WIDEST) / NORMAL_90
            for p in predictions
        ]
    )
    mean = np.array([math.log(p.runtime_s.mid) for p in predictions])
    return Joint(names, mean, correlation * spread[:, None] * spread, REGRET_SHARE)


def updated(
    predictions: Sequence[Prediction], measured: Mapping[str, Interval]
) -> list[Prediction]:
    """The predictions after runs of the same workload on some of their platforms.

    ``measured`` are run times in seconds. Those platforms' times are then ``measured``; the
    others move and narrow as far as their errors go along. Raises UsageError for a platform that
    is not predicted.
    """
    before = joint_of(predictions)
    after = before.knowing({name: math.log(time.mid) for name, time in measured.items()})
    found = []
    for index, prediction in enumerate(predictions):
        if prediction.platform in measured:
            runtime = measured[prediction.platform]
            found.append(_moved(prediction, runtime, Basis.MEASURED))
            continue
        left = before.deviation[index]
        if left == 0:
            found.append(prediction)
            continue
        width = _log_width(prediction) * after.deviation[index] / left
        runtime = around(math.exp(after.mean[index]), width)
        found.append(_moved(prediction, runtime, prediction.basis))
    return found


def _moved(prediction: Prediction, runtime: Interval, basis: Basis) -> Prediction:
    """The same with another run time: speedup and energy go along, memory stays."""
    reference_s = prediction.speedup.mid * prediction.runtime_s.mid
    energy = prediction.energy_j
    watts = 0.0 if energy is None else energy.mid / prediction.runtime_s.mid
    return replace(
        prediction,
        runtime_s=runtime,
        speedup=Interval(
            reference_s / runtime.high, reference_s / runtime.mid, reference_s / runtime.low
        ),
        energy_j=None if energy is None else runtime.scaled(watts),
        basis=basis,
        abstained=None if basis is Basis.MEASURED else prediction.abstained,
    )


def _log_width(prediction: Prediction) -> float:
    return math.log(prediction.runtime_s.high / prediction.runtime_s.mid)
