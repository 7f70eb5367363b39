"""OpenCL kernels: architecture-independent counters (AIWC) and kernel times on 15 devices.

92 rows of 9 applications; 17 kernels are tiny ones of ``hmm``: weigh by application. The counters
come from a simulator (Oclgrind) and are the same for every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.core.arrays import Floats
from lab.datasets import DataSet, locate

AIWC = DataSet(
    path="counters/aiwc_opencl.parquet",
    title="OpenCL kernels with AIWC counters on 15 devices",
    source="Johnston, Falzon, Milthorpe 2018, https://github.com/BeauJoh/opencl-predictions-with-aiwc",
    licence="MIT",
    sha256="0e883f1cdeeee8b87ddd3cb442f74bdfbe0f574f25e7f135b5f5b765ab5cd164",
)
__all__ = ["AIWC", "CPUS", "KINDS", "XEON", "Measured", "rows"]

XEON = "xeon_es-2697v2"
"""The usual reference: times on it are given to the predictor."""
CPUS = ("xeon_es-2697v2", "i7-6700k", "i5-3350", "knl")
_NVIDIA = ("gtx1080", "gtx1080ti", "titanx", "k20c", "k40c")
_AMD = (
    "fiji-furyx", "firepro-s9150", "hawaii-r9-290x", "hawaii-r9-295x2", "polaris-rx480",
    "tahiti-hd7970",
)  # fmt: skip
KINDS = {
    **dict.fromkeys(CPUS, "cpu"),
    "knl": "manycore",
    **dict.fromkeys(_NVIDIA, "nvidia"),
    **dict.fromkeys(_AMD, "amd"),
}
"""Device -> what it is: the vendor of a GPU."""
_KEY = ["application", "size", "kernel", "invocation"]
_TIME = ["kernel_time_us_median", "kernel_time_us_std", "runs"]


@dataclass(frozen=True, slots=True)
class Measured:
    """All rows as they were published."""

    applications: tuple[str, ...]
    kernels: tuple[str, ...]
    sizes: tuple[str, ...]
    invocations: tuple[str, ...]
    devices: tuple[str, ...]
    counters: tuple[str, ...]
    values: Floats
    """Rows x counters, raw."""
    seconds: Floats
    """Rows x devices: median kernel time of about 40 runs."""
    spread_seconds: Floats
    """Rows x devices: standard deviation over those runs."""
    runs: Floats
    """Rows x devices: how many they were."""


@cache
def rows() -> Measured:
    """Return the data set, rows in a fixed order. Raises ToolMissing or DocumentError, see
    ``locate``."""
    import pandas as pd  # noqa: PLC0415 - training only; importing this module must stay light

    table = pd.read_parquet(locate(AIWC))
    counters = [c for c in table.columns if c not in (*_KEY, "device", *_TIME)]
    times = table.pivot_table(index=_KEY, columns="device", values="kernel_time_us_median")
    spread = table.pivot_table(index=_KEY, columns="device", values="kernel_time_us_std")
    runs = table.pivot_table(index=_KEY, columns="device", values="runs")
    values = table.groupby(_KEY)[counters].first().loc[times.index]
    level = times.index.get_level_values
    return Measured(
        applications=tuple(level("application")),
        kernels=tuple(level("kernel")),
        sizes=tuple(level("size")),
        invocations=tuple(level("invocation")),
        devices=tuple(str(device) for device in times.columns),
        counters=tuple(counters),
        values=np.asarray(values.to_numpy(), dtype=np.float64),
        seconds=np.asarray(times.to_numpy(), dtype=np.float64) * 1e-6,
        spread_seconds=np.asarray(spread.to_numpy(), dtype=np.float64) * 1e-6,
        runs=np.asarray(runs.to_numpy(), dtype=np.float64),
    )
