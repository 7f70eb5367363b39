"""Gavel's measured throughputs (Narayanan et al., OSDI 2020; MIT licence)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.datasets import DataSet, locate

_SITE = "https://github.com/stanford-futuredata/gavel"
THROUGHPUTS = DataSet(
    path="traces/gavel_throughputs.parquet",
    title="Gavel's measured throughputs",
    source=_SITE,
    licence="MIT",
    sha256="e87e16c838c988814a806589ca82400db87565860a066f9ecdb8fcc8e50e3866",
)
ARRIVALS = tuple(
    DataSet(
        path=f"traces/gavel_msr_{number}.trace",
        title=f"Gavel's trace of arrivals, {number}",
        source=_SITE,
        licence="MIT",
        sha256=sha256,
    )
    for number, sha256 in enumerate(
        (
            "dfd3ae4c9b4d886b2146ed41b6adc9f0105e21ecda3bff33459844c232b18f0e",
            "87587b710b4c113cef0c2614a465f430124173f371423006ca0fa96d8a40a29b",
        )
    )
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of a trace: so many steps on so many GPUs, submitted so long after the beginning."""

    job_type: str
    gpus: int
    steps: int
    submit_s: float


def arrivals(number: int) -> list[Arrival]:
    """Read the jobs of a trace of ``ARRIVALS``, in order of submission."""
    lines = locate(ARRIVALS[number]).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [Arrival(row[0], int(row[6]), int(row[4]), float(row[5])) for row in rows]
