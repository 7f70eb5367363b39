"""NeuSight's operator rows as calls, with their GPU, split and seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from berth.predictor.families.graph.operators.calls import (
    CallKind,
    Calls,
    convolutions,
    linears,
    products,
    vectors,
)
from berth.predictor.hardware.catalogue import get
from lab.datasets import neusight
from lab.ground.table import Flags, Floats, Strings, Table

if TYPE_CHECKING:
    import pandas

BINARY = ("add", "div", "mul", "pow")
L4 = "l4-24gb"


@dataclass(frozen=True)
class Rows(Table):
    """[n] measurements."""

    calls: Calls
    operator: Strings
    gpu: Strings
    """Name in the catalogue."""
    chip: Strings
    test: Flags
    """NeuSight's own split."""
    seconds: Floats


def chip_of(gpu: str) -> str:
    """Return the silicon that a GPU of the catalogue is: GPUs of the same are left out together."""
    return get(gpu).chip or gpu


@cache
def rows() -> Rows:
    """Return all rows. Raises ToolMissing, DocumentError."""
    frame = neusight.operators()
    parts, order = [], []
    for name, part in frame.groupby("op", sort=True):
        parts.append(_calls(str(name), part))
        order.append(part.index.to_numpy())
    table = frame.loc[np.concatenate(order)]
    gpu = np.array([get(str(device)).name for device in table.device])
    return Rows(
        Calls.joined(*parts),
        np.array([str(op) for op in table.op]),
        gpu,
        np.array([chip_of(str(name)) for name in gpu]),
        (table.split == "test").to_numpy(bool),
        (table.latency_ms / 1e3).to_numpy(np.float64),
    )


def _calls(operator: str, part: pandas.DataFrame) -> Calls:
    if operator == "bmm":
        return products(part.B, part.M, part.K, part.N)
    if operator == "linear":
        return linears(part.B * part.M, part.K, part.N)
    if operator == "conv":
        size = part.Input_Size
        return convolutions(part.B, part.Input_Channel, part.Output_Channel, size, size)
    kind = {"softmax": CallKind.SOFTMAX, "ln": CallKind.NORMALISATION}.get(operator, CallKind.UNARY)
    return vectors(CallKind.BINARY if operator in BINARY else kind, part.B, part.H)
