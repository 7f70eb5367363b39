"""MLPerf Inference v4.1, closed division: rates of one model on one kind of accelerator, by number.

Figures of an accelerator are derived here and are no MLPerf metrics. What is taken is fixed before
anything is fitted: one node; no capped or raised power, no reference code, no preview of a product.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.datasets import DataSet, locate

MLPERF = DataSet(
    path="dl/mlperf_inference_v41.parquet",
    title="MLPerf Inference v4.1 results",
    source="MLCommons, https://mlcommons.org/benchmarks/inference-datacenter",
    licence="Apache-2.0",
    sha256="0c37e589854421d17aef897006c5ae0d2d1f85fcb8d84d7cfd371f14fcb55d41",
)
_OTHER = re.compile("MaxQ|CTS|Triton|reference|OpenShift|preview")


@dataclass(frozen=True, slots=True)
class Rate:
    """Samples a second of a whole node."""

    accelerator: str
    accelerators: int
    software: str
    """Name and major version."""
    model: str
    """With its accuracy: ``bert-99.9``."""
    scenario: str
    """``offline``: all samples at once; ``server``: as they arrive, within a bound of latency."""
    samples_per_s: float


def rates() -> list[Rate]:
    """Return rates in the order of the file. Raises ToolMissing and DocumentError."""
    import pandas  # noqa: PLC0415 - needs the extra

    found = []
    for row in pandas.read_parquet(locate(MLPERF)).itertuples():
        number = row.accelerators
        if pandas.isna(number) or number < 1 or row.nodes > 1 or _OTHER.search(str(row.system)):
            continue
        if row.scenario not in ("offline", "server"):
            continue
        name = str(row.accelerator).removeprefix("AMD Instinct ").removeprefix("AMD ")
        software = re.match(r"[^\d,]*\d*", str(row.framework))
        one = row.samples_per_s
        found.append(
            Rate(
                name,
                int(number),
                software[0] if software else "",
                str(row.model),
                str(row.scenario),
                float(row.completed_samples_per_s if pandas.isna(one) else one),
            )
        )
    return found
