"""What measuring again on every platform would reach if it were the prediction.

Not a method: it has measured what is to be predicted. One more run says what a user who runs a
program once sees of a perfect prediction. As many runs again, and their median, say how much of an
error the labels' own unsteadiness can be: the ceiling of every method. Runs are taken for
independent; what differs between one day and the next is not in their spread.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from berth.predictor.learning.relative.figures import vector_figures
from lab.relative.orders import order_figures

ONCE, AGAIN = "one more run", "as many runs again"
DRAWS = 20
_LEAST = 0.05
"""No drawn time is less than this share of the median."""


_MEDIAN = float(np.sqrt(np.pi / 2))
"""Standard error of a median over that of a mean (normal, many runs)."""


def both_figures(rows: Rows, spread_seconds: Floats, runs: Floats) -> dict[str, dict[str, float]]:
    """``rerun_figures`` of one run and of the median of ``runs`` (rows x platforms)."""
    steadier = _MEDIAN * spread_seconds / np.sqrt(np.maximum(runs, 1.0))
    return {ONCE: rerun_figures(rows, spread_seconds), AGAIN: rerun_figures(rows, steadier)}


def rerun_figures(rows: Rows, spread_seconds: Floats, seed: int = 0) -> dict[str, float]:
    """Return mean figures of times drawn around the medians with the spread of their runs (normal).

    ``spread_seconds`` is rows x platforms. The reference's time is given, as to every family.
    """
    rng = np.random.default_rng(seed)
    median = np.exp(rows.log_seconds)
    found: list[dict[str, float]] = []
    for _ in range(DRAWS):
        drawn = median + spread_seconds * rng.standard_normal(median.shape)
        again = np.log(np.maximum(drawn, _LEAST * median))
        again[:, rows.reference_column] = rows.log_reference
        found.append({**asdict(vector_figures(rows, again)), **order_figures(rows, again)})
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}
