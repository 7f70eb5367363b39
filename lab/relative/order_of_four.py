"""The paper's measure: is the whole order of four platforms right? (VAE + DNN, section V.)

There: two CPU systems, one with AMD and one with NVIDIA GPUs. Here the four are fixed by the same
shape and before any figure was seen: the reference, the newest other CPU, the newest AMD and
the newest NVIDIA card of the data set.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.figures import orders_right
from lab.relative.prior_order import prior_order_roc

FOUR = ("xeon_es-2697v2", "i7-6700k", "polaris-rx480", "gtx1080ti")


def order_figures(rows: Rows, log_predicted: Floats) -> dict[str, float]:
    """Share of rows whose order of the four is right, and of any four; {} for other platforms.

    Also the area under the ROC of "is the order the usual one".
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
    roc = prior_order_roc(measured[:, four], predicted[:, four])
    return {
        "order_of_four": float(orders_right(measured[:, four], predicted[:, four]).mean()),
        "order_of_four_usual": usual.most_common(1)[0][1] / len(measured),
        "order_of_any_four": float(np.mean(every)),
        **({} if roc is None else {"order_of_four_roc_area": roc.area}),
    }
