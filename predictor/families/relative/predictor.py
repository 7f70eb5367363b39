"""Predictions of a relative-performance bundle for one workload: times, intervals and advice.

Times measured on other platforms are returned as they are. The other predictions are moved and
narrowed by them according to the correlation of held-out errors (``Trust``). A bundle without trust
returns its best guess of the times and abstains on every platform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.program.predictor import WIDEST_USEFUL_FACTOR
from berth.predictor.families.relative.bundle import RelativeModel, unlike_constants
from berth.predictor.families.relative.cost_model import CostModel
from berth.predictor.families.relative.joint import Advice, Joint, advise
from berth.predictor.families.relative.rows import Rows
from berth.predictor.families.relative.trust import log_counters

NO_TRUST = "the bundle learnt from too few applications to say how far it can be trusted"


@dataclass(frozen=True, slots=True)
class RelativePrediction:
    """Predicted speedup and run time on one platform, or the reason to abstain.

    Without trust (error statistics) the interval has width 0 and the prediction abstains.
    """

    platform: str
    basis: Basis
    speedup: Interval
    runtime_s: Interval
    abstained: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The predictions on all requested platforms, in the bundle's order, with their joint
    distribution."""

    predictions: tuple[RelativePrediction, ...]
    joint: Joint | None
    """Joint distribution of times on these platforms; None: the bundle has no trust."""
    missing: tuple[str, ...]
    """Counters that the workload lacks; the median (or constant) of the training rows replaces
    them."""

    def advice(self) -> Advice:
        """Return the platform, and the pair of platforms, where a pilot run would reduce the
        expected regret most.

        Raises UsageError without trust.
        """
        if self.joint is None:
            raise UsageError(f"no probe can be advised: {NO_TRUST}")
        return advise(self.joint)


def answer(
    model: RelativeModel,
    row: Rows,
    among: Sequence[str] = (),
    beside: Mapping[str, float] | None = None,
) -> Answer:
    """Return the predictions for one workload, given its counters and its known times.

    ``row`` has the time on the reference and on other platforms where the workload ran. ``among``:
    platforms to predict; default: all. ``beside``: the program's values of the counters that were
    constant in training (``manifest.constants``). Raises UsageError for a platform that the bundle
    does not know, for several rows, or for a row whose pilot ran on another platform than the
    training's reference.
    """
    if len(row) != 1:
        raise UsageError(f"one workload is asked for at a time, not {len(row)}")
    platforms = model.manifest.platforms
    if unknown := [name for name in among if name not in platforms]:
        raise UsageError(
            f"the bundle does not know the platform {unknown[0]!r}",
            hint=f"it knows {', '.join(platforms)}",
        )
    guess = model.log_seconds(row.knowing())
    mean, width, joint = guess[0], np.zeros(len(platforms)), None
    constants, beside = model.manifest.constants or {}, beside or {}
    unlike = unlike_constants(constants, beside) or _unlike(model, row)
    labelled = [True] * len(platforms)
    if model.trust is not None:
        labelled = [bool(known.any()) for known in np.isfinite(model.trust.residuals).T]
        before = model.trust.joints(row.knowing(), guess)[0]
        joint = model.trust.joints(row, guess)[0]
        left = before.deviation
        share = np.divide(joint.deviation, left, out=np.zeros_like(left), where=left > 0)
        width = model.trust.log_widths(row.knowing(), guess)[0] * share
        mean = joint.mean
    log_reference_s = float(row.log_reference[0])
    predictions = []
    for index, name in enumerate(platforms):
        if among and name not in among:
            continue
        measured = bool(np.isfinite(row.log_seconds[0, index]))
        seconds = math.exp(row.log_seconds[0, index] if measured else mean[index])
        basis = Basis.CALIBRATED if labelled[index] else Basis.PRIOR
        doubt = _doubt(model, unlike, float(width[index]))
        predictions.append(
            RelativePrediction(
                platform=name,
                basis=Basis.MEASURED if measured else basis,
                speedup=around(math.exp(log_reference_s) / seconds, float(width[index])),
                runtime_s=around(seconds, float(width[index])),
                abstained=None if measured else doubt,
            )
        )
    lost = [row.counters[i] for i in np.flatnonzero(~np.isfinite(row.values[0]))]
    lost += [name for name in constants if name not in beside]
    shown = None if joint is None else joint.among([p.platform for p in predictions])
    return Answer(tuple(predictions), shown, tuple(lost))


def _unlike(model: RelativeModel, row: Rows) -> str | None:
    """Return a sentence on how ``row`` lies outside the training rows; None: it lies within.

    A row whose work is too large or too small for the cost model is also outside.
    """
    check = model.range_check
    if check is None:
        return None
    logs = log_counters(row)[0]
    work = model.model.view.work if isinstance(model.model, CostModel) else ()
    columns = [row.counters.index(name) for name in work if name in row.counters]
    return check.explain(logs) or check.beyond(columns, logs, math.log(WIDEST_USEFUL_FACTOR))


def _doubt(model: RelativeModel, unlike: str | None, log_width: float) -> str | None:
    """Return the sentence that says why the bundle abstains from a prediction; None: it does not
    abstain."""
    if model.trust is None:
        return NO_TRUST
    if unlike is not None:
        return unlike
    if log_width > math.log(WIDEST_USEFUL_FACTOR):
        return f"the interval is wider than a factor of {WIDEST_USEFUL_FACTOR:g} each way"
    return None
