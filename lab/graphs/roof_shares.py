"""Measure the share of the roof that operators reach, and their spread: ``roof_shares.json``.

GPUs: NeuSight's operators (fp32; P100, V100, A100 40 and 80 GB, MI100, MI210), its rows of the
split `train`, the same number from each device. CPUs: the whole models of
``data/model_runs.jsonl``, one core. ``python -m lab.graphs.roof_shares`` makes the file again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from berth.pilot.documents import write_json
from berth.predictor.core.arrays import Floats
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import SHARES, OperatorWork, Reach, RoofShares, roof_seconds
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roofs
from lab.datasets import locate
from lab.datasets.neusight import OPERATORS
from lab.graphs.model_runs import OnOneCore, on_one_core

DEVICES = {
    "Tesla P100-PCIE-16GB": "p100-16gb",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "NVIDIA A100-PCIE-40GB": "a100-40gb",
    "NVIDIA A100 80GB PCIe": "a100-80gb",
    "AMD Instinct MI100": "mi100-32gb",
    "AMD Instinct MI210": "mi210-64gb",
}
GROUPS = {
    "gpu-matmul": ("bmm", "linear"),
    "gpu-convolution": ("conv",),
    "gpu-other": (
        "softmax", "ln", "gelu", "relu", "tanh", "add", "mul", "div", "pow", "addu", "mulu",
        "divu", "powu",
    ),
}  # fmt: skip
_TWO_INPUTS = ("add", "mul", "div", "pow")
_FLOPS_EACH = {"softmax": 5.0, "ln": 7.0, "gelu": 5.0}
PER_DEVICE = 3_000
SAME_CORES = "epyc-genoa-9654"
"""The cores that our measurements were made on, as their data sheet has them."""
FLOAT = 4.0
BODY = 2.0
"""Operators whose roof's part is less than so many launches tell of the clock, not of the roof:
NeuSight times one operator at a time, with some 20 us around each; they are left out."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Operators of one group on one device."""

    device: str
    measured_s: Floats
    launch_s: float
    body_s: Floats
    """At the full roof."""


def read(groups: Mapping[str, tuple[str, ...]] = GROUPS, seed: int = 0) -> dict[str, list[Rows]]:
    """NeuSight's operators by group. Raises ToolMissing where the file is absent."""
    table = pd.read_parquet(locate(OPERATORS))
    known = roofs(platforms.shipped())
    found: dict[str, list[Rows]] = {}
    for group, names in groups.items():
        rows = table[table["op"].isin(names) & (table["split"] == "train")]
        for device, platform in DEVICES.items():
            own = rows[rows["device"] == device]
            own = own.sample(min(PER_DEVICE, len(own)), random_state=seed)
            if len(own):
                found.setdefault(group, []).append(_rows(own, device, known[platform]))
    return found


def _rows(table: pd.DataFrame, device: str, roof: Roof) -> Rows:
    load = _load(table)
    arithmetic, memory = roof_seconds(load, roof, Numbers.FP32)
    measured, body = table["latency_ms"].to_numpy(float) / 1000, np.maximum(arithmetic, memory)
    tells = body > BODY * roof.launch_s
    return Rows(device, measured[tells], roof.launch_s, body[tells])


def _load(table: pd.DataFrame) -> OperatorWork:
    """Shapes as NeuSight names them: matrices [B, M, K] x [B, K, N]; convolutions of 3 x 3, padded
    by 1; all others over [B, H]."""
    names = ("B", "M", "N", "K", "H", "Input_Channel", "Output_Channel", "Input_Size")
    column = {name: table[name].to_numpy(float) for name in names}
    name = table["op"].to_numpy(str)
    b = column["B"]
    matrix, conv = np.isin(name, ("bmm", "linear")), name == "conv"
    image = column["Input_Size"] ** 2
    weights = np.where(
        matrix, b * column["K"] * column["N"],
        np.where(conv, 9 * column["Input_Channel"] * column["Output_Channel"], 0.0),
    )  # fmt: skip
    moved = np.where(
        matrix, b * (column["M"] * column["K"] + column["M"] * column["N"]),
        np.where(
            conv, b * image * (column["Input_Channel"] + column["Output_Channel"]),
            b * column["H"] * np.where(np.isin(name, _TWO_INPUTS), 3, 2),
        ),
    )  # fmt: skip
    each = np.array([_FLOPS_EACH.get(one, 1.0) for one in name])
    flops = np.where(
        matrix, 2 * b * column["M"] * column["K"] * column["N"],
        np.where(
            conv, 18 * b * image * column["Input_Channel"] * column["Output_Channel"],
            each * b * column["H"],
        ),
    )  # fmt: skip
    families = [
        OpFamily.CONVOLUTION if one == "conv" else OpFamily.MATMUL if one in ("bmm", "linear")
        else OpFamily.ELEMENTWISE for one in name
    ]  # fmt: skip
    codes = np.array([FAMILIES.index(family) for family in families])
    return OperatorWork(codes, flops, FLOAT * weights, FLOAT * moved, np.ones(len(codes)))


def reach(rows: list[Rows]) -> Reach:
    """Return the median share, and the quantiles of what single operators are off."""
    times = np.concatenate([(r.measured_s - r.launch_s) / r.body_s for r in rows])
    share = 1 / float(np.median(times))
    off = np.concatenate([r.measured_s / (r.launch_s + r.body_s / share) for r in rows])
    low, high = np.quantile(off, (0.05, 0.95))
    return Reach(
        share=round(share, 4), low=round(min(float(low), 1.0), 4),
        high=round(max(float(high), 1.0), 4), operators=len(off),
    )  # fmt: skip


def reach_on_cpu(models: Sequence[OnOneCore]) -> Reach:
    """Return the same of whole models on one core."""
    share = 1 / float(np.median([(m.measured_s - m.calls_s) / m.body_s for m in models]))
    off = np.array([m.measured_s / (m.calls_s + m.body_s / share) for m in models])
    low, high = np.quantile(off, (0.05, 0.95))
    return Reach(
        share=round(share, 4), low=round(float(low), 4), high=round(float(high), 4),
        operators=len(models),
    )  # fmt: skip


def make(path: Path = SHARES) -> RoofShares:
    """Write the file."""
    groups = {group: reach(rows) for group, rows in read().items()}
    groups["cpu"] = reach_on_cpu(on_one_core())
    groups["cpu-sheet"] = reach_on_cpu(on_one_core(SAME_CORES))
    made = RoofShares(
        source="GPU groups: NeuSight's operators, fp32, split train, up to "
        f"{PER_DEVICE} of each of {len(DEVICES)} devices. cpu: whole models on one core of "
        "epyc-genoa-vm (predictor/training/graphs/data), under the roof of its benchmarks; "
        "cpu-sheet: the same under the data sheet's.",
        groups=groups,
    )
    write_json(path, made)
    return made


if __name__ == "__main__":
    for name, roof in make().groups.items():
        print(f"{name:18} share {roof.share:.3f}, 90 % within {roof.low:.2f} to {roof.high:.2f}")
