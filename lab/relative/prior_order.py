"""Is the order the usual one? The ROC of the VAE + DNN abstract (figure 5).

A row whose platforms come in the order that most rows have is a positive. A family says how sure
it is of that order by its smallest predicted gap (log seconds) between neighbours in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from berth.predictor.families.program.ceilings import Floats


@dataclass(frozen=True, slots=True)
class Roc:
    """The curve and the area under it; 0.5 is guessing from the prior."""

    positives: float
    """Share of rows in the usual order: the prior."""
    area: float
    false_positive_rate: Floats
    true_positive_rate: Floats


def usual_order(measured: Floats) -> tuple[int, ...]:
    """The columns from fast to slow in the order that most rows have."""
    orders = Counter(tuple(row) for row in measured.argsort(axis=1, kind="stable").tolist())
    # Among equally frequent ones the first by its columns, so that it does not depend on rows.
    return min(orders, key=lambda order: (-orders[order], order))


def prior_order_roc(measured: Floats, predicted: Floats) -> Roc | None:
    """Of log seconds, rows x platforms, all known; None where every row is in one order."""
    order = list(usual_order(measured))
    positive = (np.diff(measured[:, order], axis=1) >= 0).all(axis=1)
    if positive.all():
        return None
    score = np.diff(predicted[:, order], axis=1).min(axis=1)
    false_rate, true_rate, _ = roc_curve(positive, score)
    return Roc(
        positives=float(positive.mean()),
        area=float(roc_auc_score(positive, score)),
        false_positive_rate=np.asarray(false_rate, dtype=np.float64),
        true_positive_rate=np.asarray(true_rate, dtype=np.float64),
    )
