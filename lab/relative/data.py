"""The public data sets as Rows."""

from __future__ import annotations

import numpy as np

from berth.predictor.families.relative.rows import Rows
from lab.datasets import aiwc


def aiwc_rows(reference: str = aiwc.XEON) -> Rows:
    """92 OpenCL kernel launches of 9 applications on 15 devices, piloted on ``reference``."""
    found = aiwc.rows()
    return Rows(
        counters=found.counters,
        values=found.values,
        platforms=found.devices,
        reference=reference,
        log_seconds=np.log(found.seconds),
        applications=found.applications,
        kernels=tuple(
            f"{kernel}#{invocation}"
            for kernel, invocation in zip(found.kernels, found.invocations, strict=True)
        ),
        sizes=found.sizes,
    )
