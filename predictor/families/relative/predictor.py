"""Predictions of a relative-performance bundle for one workload: times and intervals.

Times measured on other platforms are returned as they are. A bundle without widths returns its
best guess of the times and abstains on every platform.
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
from berth.predictor.families.relative.rows import Rows

NO_WIDTHS = "the bundle learnt from too few applications to say how far it can be trusted"


@dataclass(frozen=True, slots=True)
class RelativePrediction:
    """Predicted speedup and run time on one platform, or the reason to abstain.

    Without widths in the bundle the interval has width 0 and the prediction abstains.
    """

    platform: str
    basis: Basis
    speedup: Interval
    runtime_s: Interval
    abstained: str | None = None


def predict_row(
    model: RelativeModel,
    row: Rows,
    among: Sequence[str] = (),
    beside: Mapping[str, float] | None = None,
) -> tuple[RelativePrediction, ...]:
    """Return the predictions for one workload, in the bundle's order of platforms.

    ``row`` has the time on the reference and on other platforms where the workload ran. ``among``:
    platforms to predict; default: all. ``beside``: the program's values of the counters that were
    constant in training (``manifest.constants``). Raises UsageError for a platform that the bundle
    does not know, for several rows, or for a row whose pilot ran on another platform than the
    training's reference.
    """
    if len(row) != 1:
        raise UsageError(f"one workload is asked for at a time, not {len(row)}")
    manifest = model.manifest
    if unknown := [name for name in among if name not in manifest.platforms]:
        raise UsageError(
            f"the bundle does not know the platform {unknown[0]!r}",
            hint=f"it knows {', '.join(manifest.platforms)}",
        )
    guess = model.log_seconds(row.knowing())[0]
    unlike = unlike_constants(manifest.constants or {}, beside or {}) or _outside(model, row)
    log_reference_s = float(row.log_reference[0])
    predictions = []
    for index, name in enumerate(manifest.platforms):
        if among and name not in among:
            continue
        is_measured = bool(np.isfinite(row.log_seconds[0, index]))
        log_seconds = float(row.log_seconds[0, index] if is_measured else guess[index])
        width = 0.0 if is_measured else (manifest.log_widths or {}).get(name, 0.0)
        basis = Basis.PRIOR if name in (manifest.unmeasured or ()) else Basis.CALIBRATED
        predictions.append(
            RelativePrediction(
                platform=name,
                basis=Basis.MEASURED if is_measured else basis,
                speedup=around(math.exp(log_reference_s - log_seconds), width),
                runtime_s=around(math.exp(log_seconds), width),
                abstained=None if is_measured else _doubt(model, unlike, width),
            )
        )
    return tuple(predictions)


def missing_counters(
    model: RelativeModel, row: Rows, beside: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the counters that the workload lacks: the median (or constant) of the training rows
    replaces them."""
    absent = [row.counters[i] for i in np.flatnonzero(~np.isfinite(row.values[0]))]
    return (*absent, *(name for name in model.manifest.constants or {} if name not in beside))


def _outside(model: RelativeModel, row: Rows) -> str | None:
    check = model.range_check
    return None if check is None else check.unlike(row.log_counters()[0], 1.0)


def _doubt(model: RelativeModel, unlike: str | None, log_width: float) -> str | None:
    """Return the sentence that says why the bundle abstains from a prediction; None: it does not
    abstain."""
    if model.manifest.log_widths is None:
        return NO_WIDTHS
    if unlike is not None:
        return unlike
    if log_width > math.log(WIDEST_USEFUL_FACTOR):
        return f"the interval is wider than a factor of {WIDEST_USEFUL_FACTOR:g} each way"
    return None
