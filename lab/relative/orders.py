"""Are whole orders of platforms right? The measures of VAE + DNN (section V, figure 5).

There: two CPU systems, one with AMD and one with NVIDIA GPUs. Here the four are fixed by the same
shape and before any figure was seen: the reference, the newest other CPU, the newest AMD and
the newest NVIDIA card of the data set.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
from sklearn.metrics import roc_auc_score

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.figures import orders_right

FOUR = ("xeon_es-2697v2", "i7-6700k", "polaris-rx480", "gtx1080ti")


def order_figures(rows: Rows, log_predicted: Floats) -> dict[str, float]:
    """Share of rows whose order of the four is right, and of any four; {} for other platforms.

    Also the share that the usual order would get right, and ``usual_order_roc``.
    """
    if not set(FOUR) <= set(rows.platforms):
        return {}
    known = np.isfinite(rows.log_seconds).all(axis=1)
    measured, predicted = rows.log_seconds[known], log_predicted[known]
    four = [rows.platforms.index(name) for name in FOUR]
    every = [
        orders_right(measured[:, list(some)], predicted[:, list(some)]).mean()
        for some in combinations(range(len(rows.platforms)), len(FOUR))
    ]
    usual = Counter(tuple(order) for order in measured[:, four].argsort(axis=1).tolist())
    roc = usual_order_roc(measured[:, four], predicted[:, four])
    return {
        "order_of_four": float(orders_right(measured[:, four], predicted[:, four]).mean()),
        "order_of_four_usual": usual.most_common(1)[0][1] / len(measured),
        "order_of_any_four": float(np.mean(every)),
        **({} if roc is None else {"order_of_four_roc_area": roc}),
    }


def usual_order(measured: Floats) -> tuple[int, ...]:
    """Return the columns from fast to slow in the order that most rows have."""
    orders = Counter(tuple(row) for row in measured.argsort(axis=1, kind="stable").tolist())
    # Among equally frequent ones the first by its columns, so that it does not depend on rows.
    return min(orders, key=lambda order: (-orders[order], order))


def usual_order_roc(measured: Floats, predicted: Floats) -> float | None:
    """Area under the ROC of "is the order the usual one"; 0.5 is guessing from the prior.

    Of log seconds, rows x platforms, all known; None where every row is in one order. A prediction
    is as sure of that order as its smallest gap between neighbours in it is wide.
    """
    order = list(usual_order(measured))
    positive = (np.diff(measured[:, order], axis=1) >= 0).all(axis=1)
    if positive.all():
        return None
    return float(roc_auc_score(positive, np.diff(predicted[:, order], axis=1).min(axis=1)))
