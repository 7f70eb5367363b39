"""The times of a program on other platforms than its home, by the ratios between the kinds."""

from __future__ import annotations

import math
from dataclasses import replace

from berth.pilot.platform import Platform
from berth.predictor.core.family import Question
from berth.predictor.core.prediction import Basis, Interval, Prediction, PredictionCurve
from berth.predictor.families.history.times_there import UNTRUSTED, curve_of_runs
from berth.predictor.families.history.workload import HistoryWorkload, KindRatio

HOME_LOG_WIDTH = 0.01
"""A home's own error: that of a ratio stands with the other platform."""


def scaled_curve(
    question: Question,
    document: HistoryWorkload,
    platform: Platform,
    ratio: KindRatio | None,
    own: PredictionCurve | None,
) -> PredictionCurve | None:
    """Return the platform's curve: ``own``, that of the runs there, with the home's times by the
    ratio in place of its own times.

    ``ratio``: of the platform to one of the program's homes; None: none is known. Numbers of cores
    or GPUs that ran on the platform only keep their own times. Returns None where nothing is known.

    Times of several homes are of different executables, and nothing is known of their ratio: only
    those of the first home are an error that platforms share.
    """
    first_home = document.ratios[0].than if document.ratios else None
    if platform.name == first_home and own is not None:
        return PredictionCurve(tuple(_at_home(point, document) for point in own.points))
    home = None if ratio is None else curve_of_runs(question, platform, ratio.than)
    if ratio is None or home is None:
        return own
    there = {} if own is None else {point.gpus or point.cores: point for point in own.points}
    points = dict(there)
    for point in home.points:
        units = point.gpus or point.cores
        scaled = _scaled(_at_home(point, document), ratio, there.get(units))
        if ratio.than != first_home:
            scaled = replace(scaled, own_log_width=None, usual_ratio=None)
        points[units] = scaled
    return PredictionCurve(tuple(points[units] for units in sorted(points)))


def _at_home(point: Prediction, document: HistoryWorkload) -> Prediction:
    """Return a point on the home: its time, however uncertain, is shared with other platforms."""
    is_only_wide = point.abstained == UNTRUSTED and document.runs
    abstained = None if is_only_wide else point.abstained
    return replace(point, own_log_width=HOME_LOG_WIDTH, usual_ratio=1.0, abstained=abstained)


def _scaled(point: Prediction, ratio: KindRatio, there: Prediction | None) -> Prediction:
    """Return a home's point as it is on the ratio's platform; ``there``: the point from runs on
    that platform, None: there are none."""
    time, own = point.runtime_s, math.log(ratio.high / ratio.low) / 2
    mid = time.mid * ratio.mid
    below = math.hypot(math.log(time.mid / time.low), math.log(ratio.mid / ratio.low))
    above = math.hypot(math.log(time.high / time.mid), math.log(ratio.high / ratio.mid))
    return replace(
        point,
        basis=_basis(ratio, there),
        runtime_s=Interval(mid * math.exp(-below), mid, mid * math.exp(above)),
        memory=point.memory if there is None else there.memory,
        own_log_width=own,
        usual_ratio=ratio.usual,
    )


def _basis(ratio: KindRatio, there: Prediction | None) -> Basis:
    """Return the basis of a scaled time: without runs there and without programs that ran on both
    platforms it is a prior, which leaves no place out."""
    if there is not None:
        return Basis.MEASURED
    return Basis.LEARNED if ratio.programs else Basis.PRIOR
