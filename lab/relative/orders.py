"""How often the whole order of four platforms by time is right (VAE + DNN, section V, figure 5).

The paper has two CPU systems, one system with AMD GPUs and one with NVIDIA GPUs. Here the four are
the reference, the newest other CPU, the newest AMD card and the newest NVIDIA card of the data set.
They were fixed before any figure was computed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from sklearn.metrics import roc_auc_score

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows

FOUR = ("xeon_es-2697v2", "i7-6700k", "polaris-rx480", "gtx1080ti")


def order_figures(rows: Rows, log_predicted: Floats) -> dict[str, float]:
    """Return the share of rows whose order of the four platforms is right, and ``usual_order_roc``.

    Return {} where ``rows`` lacks one of the four platforms.
    """
    if not set(FOUR) <= set(rows.platforms):
        return {}
    known = np.isfinite(rows.log_seconds).all(axis=1)
    measured, predicted = rows.log_seconds[known], log_predicted[known]
    four = [rows.platforms.index(name) for name in FOUR]
    roc = usual_order_roc(measured[:, four], predicted[:, four])
    return {
        "order_of_four": float(orders_right(measured[:, four], predicted[:, four]).mean()),
        **({} if roc is None else {"order_of_four_roc_area": roc}),
    }


def usual_order(measured: Floats) -> tuple[int, ...]:
    """Return the most frequent order of the columns, from fast to slow."""
    orders = Counter(tuple(row) for row in measured.argsort(axis=1, kind="stable").tolist())
    # Among equally frequent ones the first by its columns, so that it does not depend on rows.
    return min(orders, key=lambda order: (-orders[order], order))


def usual_order_roc(measured: Floats, predicted: Floats) -> float | None:
    """Return the area under the ROC curve of "is the order the most frequent one"; 0.5: chance.

    ``measured``, ``predicted``: log seconds, rows x platforms, without NaN. The score of a
    prediction is its smallest gap between neighbours in that order. None: all rows have that order.
    """
    order = list(usual_order(measured))
    positive = (np.diff(measured[:, order], axis=1) >= 0).all(axis=1)
    if positive.all():
        return None
    return float(roc_auc_score(positive, np.diff(predicted[:, order], axis=1).min(axis=1)))


def orders_right(measured: Floats, predicted: Floats) -> Floats:
    """Return for each row 1.0 where all columns are predicted in the measured order, else 0.0."""
    first, second = np.triu_indices(measured.shape[1], 1)
    real = measured[:, first] - measured[:, second]
    guess = predicted[:, first] - predicted[:, second]
    wrong = (np.sign(real) != np.sign(guess)) & (np.abs(real) > 0)
    return np.asarray((~wrong.any(axis=1)).astype(np.float64))
