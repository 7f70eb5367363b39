"""Rows of relative performance made by a known formula: not measurements."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.relative.rows import Rows


def toy(applications: int = 4, sizes: int = 3) -> Rows:
    rng = np.random.default_rng(0)
    n = applications * sizes
    work = rng.uniform(10, 20, n)
    speed = np.array([0.0, 1.0, 2.0])
    return Rows(
        counters=("instructions", "bytes"),
        values=np.exp(np.column_stack([work, work + rng.normal(0, 0.1, n)])),
        platforms=("cpu", "gpu", "slice"),
        reference="cpu",
        log_seconds=work[:, None] - 20 - speed + rng.normal(0, 0.01, (n, 3)),
        applications=tuple(f"app{i // sizes}" for i in range(n)),
        kernels=tuple("kernel" for _ in range(n)),
        sizes=tuple(str(i % sizes) for i in range(n)),
    )
