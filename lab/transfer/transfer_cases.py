"""timm's measurements as cases of transfer between platforms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import ROOF_FEATURES
from berth.predictor.families.graph.transfer.cases import (
    Cases,
    Codes,
    graph_columns,
    place_columns,
    spec_of,
)
from lab.ground.table import Floats, Strings, Table
from lab.latency.timm_devices import NUMBERS, platform_of, roof_of_device
from lab.latency.timm_runs import Graphs, Runs, graphs, roof_rows, runs

_ROOF_S = ROOF_FEATURES.index("roof_s")


@dataclass(frozen=True)
class Measured(Table):
    """Measured cases, and the groups that they are split by."""

    cases: Cases
    log_seconds: Floats
    """[n] of one image."""
    device: Strings
    stack: Strings
    architecture: Strings
    family: Strings

    @property
    def residual(self) -> Floats:
        """Return [n] log of measured over roofline time."""
        return np.asarray(self.log_seconds - self.cases.log_roof)


@cache
def timm_cases() -> Measured:
    """Inference rows whose graph is known. Raises ToolMissing, DocumentError."""
    rows = runs()
    return measured_cases(rows[rows.has_graph], graphs())


def measured_cases(rows: Runs, known: Graphs) -> Measured:
    """Return rows with a graph. ``stack`` is
    ``platform/numbers/framework/layout/version/precision``."""
    batch, device = rows.batch.astype(np.float64), rows.device.tolist()
    numbers = [NUMBERS[name] for name in rows.precision.tolist()]
    framework = np.where(rows.compiled, "compiled", "torch").tolist()
    stack = np.array([
        "/".join((platform_of(name), own.value, frame, layout, f"torch-{version}", precision))
        for name, own, frame, layout, version, precision in zip(
            device, numbers, framework, rows.layout.tolist(), rows.torch.tolist(),
            rows.precision.tolist(), strict=True,
        )
    ])  # fmt: skip
    under = roof_rows(rows, [known.work[n] for n in rows.graph.tolist()])
    roofs = [roof_of_device(name) for name in device]
    cases = Cases(
        graph=graph_columns(known.features[rows.graph], batch),
        place=place_columns(under, batch),
        spec=np.array([spec_of(roof, own) for roof, own in zip(roofs, numbers, strict=True)]),
        log_roof=np.log(under[:, _ROOF_S]),
        gpu=np.array([int(roof.is_gpu) for roof in roofs]),
        fused=rows.compiled.astype(np.int64),
        device=_codes(rows.device), stack=_codes(stack), model=rows.graph,
    )  # fmt: skip
    return Measured(cases, np.log(rows.seconds), rows.device, stack, rows.architecture, rows.family)


def _codes(names: Strings) -> Codes:
    return np.asarray(np.unique(names, return_inverse=True)[1], np.int64)
