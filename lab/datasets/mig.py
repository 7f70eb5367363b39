"""Measured speeds on MIG slices of an A100: MISO (training, 40 GB) and ParvaGPU (inference, 80 GB).

* MISO: the median step time of 8 models at 4 batch sizes on five profiles, one after the other;
  on the whole GPU also utilisation, power, and the caching allocator's reservation. A row without
  a step time did not run for want of memory (``fits``).
* ParvaGPU: requests a second of each of 1 to 5 processes (MPS) on five profiles at 9 batch sizes
  for 11 models; a throughput of 0 is a combination that did not run, and is left out here. Some
  rows repeat the number of the row before to the last digit (1g, resnet152, batch 4, 4 and 5
  processes): they are kept as published.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lab.datasets import DataSet, locate

MISO = DataSet(
    path="mig/miso_a100_40gb_training.csv",
    title="MISO training step times on MIG slices of an A100 40 GB",
    source="MISO, SoCC 2022 (https://github.com/boringlee24/socc22-miso)",
    licence="MIT",
    sha256="d47207a1591facb806af63b220e424c428cb82fbbe15734052f57dbde10500fc",
)
PARVAGPU = DataSet(
    path="mig/parvagpu_a100_80gb_inference.csv",
    title="ParvaGPU inference throughput on MIG slices of an A100 80 GB",
    source="ParvaGPU, SC 2024 (https://github.com/MunQ-Lee/ParvaGPU_SC24)",
    licence="MIT",
    sha256="a030a9f9e1c7fa9b1a947adeefb2d6cd92f640df445bf44c3e17250402219392",
)
WHOLE = 7
"""Compute slices of the whole GPU."""
USABLE_MIB = {"1g.5gb": 4864, "2g.10gb": 9984, "3g.20gb": 20096, "4g.20gb": 20096,
              "7g.40gb": 40448}  # fmt: skip
"""Memory that a program can use on slices of an A100 40 GB (``nvidia-smi mig -lgip``)."""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """MISO: one model and batch on one profile."""

    model: str
    batch: int
    profile: str
    compute_slices: int
    step_s: float | None
    """Median; None: did not run."""
    mean_step_s: float | None
    reserved_mib: float
    """By the allocator on the whole GPU: an upper bound of the need."""
    power_w: float | None
    sm_utilization: float | None
    memory_utilization: float | None
    """On the whole GPU, of 1; None where the row did not run."""
    fits: bool


@dataclass(frozen=True, slots=True)
class InferenceRow:
    """ParvaGPU: one model, batch and number of processes on one profile."""

    model: str
    batch: int
    processes: int
    compute_slices: int
    throughput_per_s: float
    """Requests a second of one process."""

    @property
    def step_s(self) -> float:
        """Return seconds a batch in one process."""
        return self.batch / self.throughput_per_s


@cache
def training_rows() -> tuple[TrainingRow, ...]:
    """MISO in the file's order. Raises ToolMissing or DocumentError (see ``locate``)."""
    return tuple(
        TrainingRow(
            model=row["model"],
            batch=int(row["batch_size"]),
            profile=row["mig_profile"],
            compute_slices=int(row["gpc"]),
            step_s=_number(row["median_step_s"]),
            mean_step_s=_number(row["mean_step_s"]),
            reserved_mib=float(row["gpu_mem_mib"]),
            power_w=_number(row["power_w_full"]),
            sm_utilization=_share(row["sm_util_full"]),
            memory_utilization=_share(row["mem_util_full"]),
            fits=row["fits"] == "True",
        )
        for row in _read(MISO)
    )


@cache
def inference_rows() -> tuple[InferenceRow, ...]:
    """ParvaGPU in the file's order, without what did not run."""
    return tuple(
        InferenceRow(
            model=row["model"],
            batch=int(row["Batch size"]),
            processes=int(row["Workload Number"]),
            compute_slices=int(row["Mig instance"]),
            throughput_per_s=float(row["Throughput"]),
        )
        for row in _read(PARVAGPU)
        if float(row["Throughput"]) > 0
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


def _share(percent: str) -> float | None:
    return float(percent) / 100 if percent else None


def _read(data: DataSet) -> Iterator[dict[str, str]]:
    with locate(data).open(newline="", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)
