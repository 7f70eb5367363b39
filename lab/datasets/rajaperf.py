"""RAJAPerf on LLNL's Quartz and Lassen: measured seconds a repetition of 60 kernels.

Which rows are meant is part of every figure made from them, so the choice stands here:

* ``quartz``: one core of a Xeon E5-2695 v4, ``Base_Seq``, g++ 10.3.1 ``-Ofast -march=native``
  with a final ``-O3`` (the only options measured at all three sizes); median over runs;
* ``lassen-v100``: one V100, ``Base_CUDA``, clang 10 + nvcc 10.2, thread blocks of 256 (the
  suite's default and the only tuning that all 60 kernels have); median over runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lab.datasets import DataSet, locate

RAJAPERF = DataSet(
    path="counters/rajaperf_quartz_lassen.parquet",
    title="RAJAPerf times on Quartz and Lassen",
    source="LLNL thicket and thicket-tutorial (https://github.com/LLNL/thicket-tutorial)",
    licence="MIT",
    sha256="c6e58148988db6b25e52775ced22fb965c0583b85b4222c9d3e3c1bb3bad501a",
)
SIZES = (1048576, 2097152, 8388608)
QUARTZ_ROWS = "g++ 10.3.1 -Ofast -march=native -O3, Base_Seq, one core, median of runs"
LASSEN_ROWS = "Base_CUDA, block 256, one V100, median of runs"
LABELS = {"quartz": QUARTZ_ROWS, "lassen-v100": LASSEN_ROWS}


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel at one size: published work of a repetition and measured times."""

    kernel: str
    size: int
    bytes_per_rep: float
    flops_per_rep: float
    iterations_per_rep: float
    kernels_per_rep: float
    seconds: dict[str, float]
    """By platform name (``quartz``, ``lassen-v100``), a repetition."""


@cache
def rows() -> tuple[Row, ...]:
    """Return all (kernel, size) that both machines measured, in a fixed order: 60 x 3."""
    import pandas as pd  # noqa: PLC0415 - training only; importing this module must stay light

    table = pd.read_parquet(locate(RAJAPERF))
    table = table[table["problem_size_run"].isin(SIZES)]
    key = ["kernel", "problem_size_run"]
    cpu = table[
        (table["cluster"] == "quartz")
        & (table["compiler"] == "g++-10.3.1")
        & table["compiler_options"].fillna("").str.strip().str.endswith("-g -O3")
    ]
    gpu = table[(table["cluster"] == "lassen") & (table["tuning"] == "block_256")]
    work = ["Bytes/Rep", "Flops/Rep", "Iterations/Rep", "Kernels/Rep"]
    merged = (
        cpu.groupby(key)[["time_per_rep_s", *work]]
        .median()
        .join(gpu.groupby(key)["time_per_rep_s"].median().rename("v100"), how="inner")
        .sort_index()
    )
    return tuple(
        Row(
            kernel=str(kernel),
            size=int(size),
            bytes_per_rep=float(row["Bytes/Rep"]),
            flops_per_rep=float(row["Flops/Rep"]),
            iterations_per_rep=float(row["Iterations/Rep"]),
            kernels_per_rep=float(row["Kernels/Rep"]),
            seconds={"quartz": float(row["time_per_rep_s"]), "lassen-v100": float(row["v100"])},
        )
        for (kernel, size), row in merged.iterrows()
    )
