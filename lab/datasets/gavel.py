"""Gavel's traces and measured throughputs (Narayanan et al., OSDI 2020; MIT licence)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import DocumentError
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
_SOURCE = "simulation_throughputs"


@dataclass(frozen=True)
class GavelJobs:
    """[jobs] of a trace, by arrival."""

    kind: tuple[str, ...]
    """Job type: model and batch size."""
    steps: NDArray[np.float64]
    submit_s: NDArray[np.float64]
    gpus: NDArray[np.int64]


def read_trace(path: Path) -> GavelJobs:
    """A file of tab-separated lines: type, command, option of the steps, whether it needs data,
    steps, arrival, GPUs. Raises DocumentError naming the line."""
    kind, steps, submit, gpus = [], [], [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        parts = line.split("\t")
        try:
            scale = int(parts[6])
            kind.append(parts[0])
            steps.append(float(parts[4]))
            submit.append(float(parts[5]))
        except (IndexError, ValueError):
            raise DocumentError(
                path, "is not a line of Gavel's traces", key=f"line {number}"
            ) from None
        gpus.append(max(1, scale))
    order = np.argsort(np.array(submit), kind="stable")
    return GavelJobs(
        tuple(kind[i] for i in order),
        np.array(steps)[order],
        np.array(submit)[order],
        np.array(gpus, np.int64)[order],
    )


def throughputs(path: Path) -> Mapping[tuple[str, int], NDArray[np.float64]]:
    """(job type, GPUs) -> [devices] steps per second of a job alone; NaN: not measured."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    table = pd.read_parquet(path)
    alone = table[(table["source"] == _SOURCE) & table["colocated_job_type"].isna()]
    found: dict[tuple[str, int], NDArray[np.float64]] = {}
    for row in alone.itertuples(index=False):
        if row.worker_type in DEVICES:
            key = (str(row.job_type), int(row.scale_factor))
            found.setdefault(key, np.full(len(DEVICES), np.nan))
            found[key][DEVICES.index(row.worker_type)] = float(row.steps_per_s)
    return found
