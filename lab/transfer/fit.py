"""The process after a whole table of measured cases."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.graph.latency.transfer.kernel import Kernel
from berth.predictor.learning.graphs.posterior import Posterior, fit_cases
from lab.transfer.table import Table


def fit(table: Table, kernel: Kernel) -> Posterior:
    """Exact; O(n^3)."""
    offset = float(table.residual.mean())
    noise = np.full(len(table), kernel.noise)
    return fit_cases(table.cases, table.residual, kernel, offset, noise=noise, own=None)
