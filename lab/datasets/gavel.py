"""Gavel's measured throughputs (Narayanan et al., OSDI 2020; MIT licence)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.datasets import DataSet

_SITE = "https://github.com/stanford-futuredata/gavel"
THROUGHPUTS = DataSet(
    path="traces/gavel_throughputs.parquet",
    title="Gavel's measured throughputs",
    source=_SITE,
    licence="MIT",
    sha256="e87e16c838c988814a806589ca82400db87565860a066f9ecdb8fcc8e50e3866",
)
DEVICES = ("k80", "p100", "v100")
_MEASURED = "physical_cluster_throughputs"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A job alone on GPUs of one machine."""

    device: str
    job_type: str
    model: str
    gpus: int
    steps_per_s: float
    """Of all GPUs together, each with the batch of its own that the job type names."""


def scaled(path: Path) -> list[Scaled]:
    """Read what Gavel measured on its cluster of jobs that shared their GPUs with no other.

    Jobs that did not run (0 steps a second) are left out.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    table = pd.read_parquet(path)
    alone = table[(table["source"] == _MEASURED) & table["colocated_job_type"].isna()]
    return [
        Scaled(
            str(row.worker_type), str(row.job_type), str(row.model), int(row.scale_factor),
            float(row.steps_per_s),
        )
        for row in alone.itertuples(index=False)
        if row.worker_type in DEVICES and row.steps_per_s > 0
    ]  # fmt: skip
