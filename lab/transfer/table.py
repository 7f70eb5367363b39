"""timm's measurements as cases of transfer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import ROOF_FEATURES, Floats, roof_features
from berth.predictor.families.graph.latency.transfer.cases import (
    Cases,
    Codes,
    graph_columns,
    place_columns,
    spec_of,
)
from lab.latency.data import Graphs, Runs, Strings, graphs, runs
from lab.transfer.devices import (
    NUMBERS,
    PLATFORM,
    roof_of_device,
)

_ROOF_S = ROOF_FEATURES.index("roof_s")


@dataclass(frozen=True)
class Table:
    """Measured cases, and the groups that they are split by."""

    cases: Cases
    log_seconds: Floats
    """[n] of one image."""
    device: Strings
    stack: Strings
    architecture: Strings
    family: Strings

    def __len__(self) -> int:
        return len(self.log_seconds)

    @property
    def residual(self) -> Floats:
        """[n] log of measured over roofline time."""
        return np.asarray(self.log_seconds - self.cases.log_roof)

    def __getitem__(self, rows: Codes) -> Table:
        return Table(
            self.cases[rows], self.log_seconds[rows], self.device[rows], self.stack[rows],
            self.architecture[rows], self.family[rows],
        )  # fmt: skip


@cache
def timm_table() -> Table:
    """Inference rows whose graph is known. Raises ToolMissing, DocumentError."""
    rows = runs()
    return table(rows[rows.has_graph], graphs())


def table(rows: Runs, known: Graphs) -> Table:
    """Rows with a graph. ``stack`` is ``platform/numbers/framework/layout/version/precision``."""
    batch = rows.batch.astype(np.float64)
    device = rows.device.tolist()
    numbers = [NUMBERS[name] for name in rows.precision.tolist()]
    framework = np.where(rows.compiled, "compiled", "torch").tolist()
    stack = np.array([
        "/".join((PLATFORM[name], own.value, frame, layout, f"torch-{version}", precision))
        for name, own, frame, layout, version, precision in zip(
            device, numbers, framework, rows.layout.tolist(), rows.torch.tolist(),
            rows.precision.tolist(), strict=True,
        )
    ])  # fmt: skip
    under = _under_roofs(rows, known)
    cases = Cases(
        graph=graph_columns(known.features[rows.graph], batch),
        place=place_columns(under, batch),
        spec=np.array([
            spec_of(roof_of_device(name), own) for name, own in zip(device, numbers, strict=True)
        ]),
        log_roof=np.log(under[:, _ROOF_S]),
        gpu=np.array([int(roof_of_device(name).is_gpu) for name in device]),
        fused=rows.compiled.astype(np.int64),
        device=_codes(rows.device), stack=_codes(stack), model=rows.graph,
    )  # fmt: skip
    return Table(cases, np.log(rows.seconds), rows.device, stack, rows.architecture, rows.family)


def _codes(names: Strings) -> Codes:
    return np.asarray(np.unique(names, return_inverse=True)[1], np.int64)


def _under_roofs(rows: Runs, known: Graphs) -> Floats:
    """[rows, len(ROOF_FEATURES)]; a graph at a batch once for all places."""
    places = sorted({(d, NUMBERS[p]) for d, p in zip(rows.device, rows.precision, strict=True)})
    place = {one: n for n, one in enumerate(places)}
    roofs = [roof_of_device(device) for device, _ in places]
    numbers = [own for _, own in places]
    pairs, at = np.unique(np.column_stack((rows.graph, rows.batch)), axis=0, return_inverse=True)
    every = np.array(
        [roof_features(known.work[graph], roofs, numbers, batch) for graph, batch in pairs.tolist()]
    )
    where = [place[d, NUMBERS[p]] for d, p in zip(rows.device, rows.precision, strict=True)]
    return np.asarray(every[at.ravel(), where])
