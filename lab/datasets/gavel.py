"""Gavel's traces and measured throughputs (Narayanan et al., OSDI 2020; MIT licence)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import DocumentError
from berth.plugin.history.files import lines_of
from berth.plugin.history.reading import Read
from berth.plugin.replay.past import read_gavel
from berth.policies.replay import Trace
from lab.datasets import DataSet

_SITE = "https://github.com/stanford-futuredata/gavel"
_SHA256 = {
    "0": "dfd3ae4c9b4d886b2146ed41b6adc9f0105e21ecda3bff33459844c232b18f0e",
    "1": "87587b710b4c113cef0c2614a465f430124173f371423006ca0fa96d8a40a29b",
}
TRACES = {
    name: DataSet(
        path=f"traces/gavel_msr_{name}.trace",
        title="Gavel's trace",
        source=_SITE,
        licence="MIT",
        sha256=sha256,
    )
    for name, sha256 in _SHA256.items()
}
THROUGHPUTS = DataSet(
    path="traces/gavel_throughputs.parquet",
    title="Gavel's measured throughputs",
    source=_SITE,
    licence="MIT",
    sha256="e87e16c838c988814a806589ca82400db87565860a066f9ecdb8fcc8e50e3866",
)
DEVICES = ("k80", "p100", "v100")
_SOURCE, _MEASURED = "simulation_throughputs", "physical_cluster_throughputs"


def read_trace(path: Path) -> tuple[Trace, NDArray[np.float64]]:
    """The jobs by arrival, and each one's steps. Raises DocumentError naming the first bad line."""
    read = Read()
    trace, steps = read_gavel(lines_of(path), read)
    if read.broken:
        raise DocumentError(path, f"is not one of Gavel's traces: {read.examples[0]}")
    return trace, steps


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
    """What Gavel measured on its cluster; jobs that did not run are left out."""
    return [one for one in _alone(path, _MEASURED) if one.steps_per_s > 0]


def throughputs(path: Path) -> Mapping[tuple[str, int], NDArray[np.float64]]:
    """(job type, GPUs) -> [devices] steps per second of a job alone; NaN: not measured."""
    found: dict[tuple[str, int], NDArray[np.float64]] = {}
    for one in _alone(path, _SOURCE):
        key = (one.job_type, one.gpus)
        found.setdefault(key, np.full(len(DEVICES), np.nan))
        found[key][DEVICES.index(one.device)] = one.steps_per_s
    return found


def _alone(path: Path, source: str) -> list[Scaled]:
    """Jobs that shared their GPUs with no other; 0 steps a second: it did not run."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    table = pd.read_parquet(path)
    alone = table[(table["source"] == source) & table["colocated_job_type"].isna()]
    return [
        Scaled(
            str(row.worker_type), str(row.job_type), str(row.model), int(row.scale_factor),
            float(row.steps_per_s),
        )
        for row in alone.itertuples(index=False)
        if row.worker_type in DEVICES
    ]  # fmt: skip
