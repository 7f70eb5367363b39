"""NeuSight's measurements: single operators on nine GPUs, and whole models on twelve.

All in fp32 (TF32 off) with PyTorch, cuBLAS or rocBLAS, cuDNN; an operator's time is the mean of
the best 5 of 25 runs between two events, so it holds one launch. ``test`` is NeuSight's own split:
shapes of language models and larger ones, and the GPUs that it never trains on (L4, A100 80 GB). Of
AMD's matrix products only test rows are here. In ``bmm`` and ``linear``, [B, M, N] times [B, N, K]
or [N, K]: N is summed over.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from lab.datasets import DataSet, locate

if TYPE_CHECKING:
    import pandas

_SOURCE = "NeuSight, ASPLOS 2025 (https://github.com/sitar-lab/NeuSight)"
OPERATORS = DataSet(
    path="dl/neusight_ops.parquet",
    title="NeuSight operator latencies",
    source=_SOURCE,
    licence="MIT",
    sha256="831e7369905e76fd339a29f928a1508f11e3f8c15086ba6c79a12515bbac52aa",
)
MODELS = DataSet(
    path="dl/neusight_e2e.csv",
    title="NeuSight whole-model latencies",
    source=_SOURCE,
    licence="MIT",
    sha256="cc9dcedf74c0b5cebd25d3fbd63f04f8965b1a1ddc9b52323849274724edc0ce",
)
_COLUMNS = ("op", "latency_ms", "device", "split", "B", "M", "N", "K", "H", "Input_Channel",
            "Output_Channel", "Input_Size")  # fmt: skip


@dataclass(frozen=True, slots=True)
class WholeModel:
    """One model run on one kind of GPU."""

    device: str
    model: str
    training: bool
    sequence: int
    batch: int
    option: str
    """"" (as it stands), fusion (compiled), dp4, tp4, pp4_1 (four GPUs)."""
    seconds: float
    forward_s: float
    """0 where not published, as the next."""
    backward_s: float


def operators() -> pandas.DataFrame:
    """Return all operator rows, without names of kernels. Raises ToolMissing, DocumentError."""
    import pandas  # noqa: PLC0415 - a training library

    return pandas.read_parquet(locate(OPERATORS), columns=list(_COLUMNS))


@cache
def whole_models() -> tuple[WholeModel, ...]:
    """Return all whole-model rows in the file's order. Raises ToolMissing, DocumentError."""
    with locate(MODELS).open(newline="", encoding="utf-8") as stream:
        return tuple(
            WholeModel(
                device=row["device"],
                model=row["model"],
                training=row["mode"] == "train",
                sequence=int(row["seq"]),
                batch=int(row["batch"]),
                option=row["opt"],
                seconds=float(row["e2e_latency"]) / 1e3,
                forward_s=float(row["fw_latency"] or 0) / 1e3,
                backward_s=float(row["bwall_latency"] or 0) / 1e3,
            )
            for row in csv.DictReader(stream)
        )
