"""The measured rows as the learnt time takes them: terms and likeness, by graph or by what is
published of a model (MACs, activations, parameters), where no graph is at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import (
    ROOF_FEATURES,
    Floats,
    Work,
    roof_features,
)
from berth.predictor.families.graph.latency.inputs import LIKENESS, TERMS, likeness, terms
from lab.datasets.timm import Architecture
from lab.latency import described
from lab.latency.data import (
    Flags,
    Runs,
    Strings,
    architectures,
    graphs,
    runs,
)
from lab.latency.process import Sample
from lab.transfer.devices import NUMBERS, PLATFORM, roof_of_device

_PUBLISHED = ("gmacs", "macts", "parameters")


@dataclass(frozen=True)
class Samples:
    """All rows of inference."""

    rows: Runs
    setting: Strings
    """``platform | precision | layout | software``."""
    graph: Flags
    """Rows with a graph (archive or described), by the network and its image size."""
    archive: Flags
    """Rows whose own graph is in the public archive."""
    by_graph: Sample
    """[all rows]; zeros where there is no graph."""
    by_totals: Sample
    """[all rows]; NaN where nothing is published."""

    @property
    def totals(self) -> Flags:
        """Rows of which all totals are published."""
        return np.asarray(~np.isnan(self.by_totals.likeness).any(axis=1))

    def grouped(self, group: Strings) -> Samples:
        """With other groups to be held out together."""
        return replace(
            self,
            by_graph=replace(self.by_graph, group=group),
            by_totals=replace(self.by_totals, group=group),
        )


def settings(rows: Runs) -> Strings:
    """[rows] the setting's name."""
    software = [
        f"torch {_version(version)}{', compiled' if compiled else ''}"
        for version, compiled in zip(rows.torch.tolist(), rows.compiled.tolist(), strict=True)
    ]
    return np.array([
        f"{PLATFORM[device]} | {precision} | {layout} | {one}"
        for device, precision, layout, one in zip(
            rows.device.tolist(), rows.precision.tolist(), rows.layout.tolist(), software,
            strict=True,
        )
    ])  # fmt: skip


def _version(digits: int) -> str:
    """113 is 1.13, 291 is 2.9.1."""
    if digits < 200:
        return f"1.{digits % 100}"
    return f"{digits // 100}.{digits // 10 % 10}.{digits % 10}"


@cache
def samples() -> Samples:
    """Read once in a process (10 s). Raises ToolMissing, DocumentError."""
    rows = runs()
    known = works()
    first = architectures()
    by_network: dict[Architecture, tuple[Work, Floats]] = {}
    for one, found in known.items():
        by_network.setdefault(Architecture(first.get(one.model, one.model), one.image_size), found)
    work = [
        known.get(Architecture(model, size)) or by_network.get(Architecture(network, size))
        for model, network, size in zip(
            rows.model.tolist(), rows.architecture.tolist(), rows.image_size.tolist(), strict=True
        )
    ]
    setting, log_seconds = settings(rows), np.log(rows.seconds)
    own, kind = by_graph(rows, work)
    total, spoken = by_totals(rows)
    group = rows.architecture
    return Samples(
        rows, setting, np.array([one is not None for one in work]), rows.has_graph,
        Sample(setting, group, own, kind, log_seconds),
        Sample(setting, group, total, spoken, log_seconds),
    )  # fmt: skip


def works() -> dict[Architecture, tuple[Work, Floats]]:
    """Work and features of every graph at hand, the archive's first."""
    found = graphs()
    known = {one: (d.work, d.features) for one, d in described.read().items()}
    own = zip(found.architectures, found.work, found.features, strict=True)
    known.update({one: (work, features) for one, work, features in own})
    return known


def by_graph(rows: Runs, work: list[tuple[Work, Floats] | None]) -> tuple[Floats, Floats]:
    """([rows, TERMS], [rows, LIKENESS]); zeros where ``work`` has none."""
    have = np.flatnonzero([one is not None for one in work])
    graph = np.array([one[1] for one in work if one is not None])
    roof = np.empty((len(have), len(ROOF_FEATURES)))
    seen: dict[tuple[int, str, str, int], Floats] = {}
    for n, row in enumerate(have.tolist()):
        one = work[row]
        assert one is not None  # noqa: S101 - just selected
        key = (id(one[0]), str(rows.device[row]), str(rows.precision[row]), int(rows.batch[row]))
        if key not in seen:
            seen[key] = roof_features(
                one[0], [roof_of_device(key[1])], [NUMBERS[key[2]]], key[3]
            )[0]  # fmt: skip
        roof[n] = seen[key]
    batch = rows.batch[have].astype(np.float64)
    found = np.zeros((len(rows), len(TERMS))), np.zeros((len(rows), len(LIKENESS)))
    found[0][have] = terms(graph, roof, batch)
    found[1][have] = likeness(graph, roof, batch)
    return found


def by_totals(rows: Runs) -> tuple[Floats, Floats]:
    """([rows, terms], [rows, columns]) of published totals and the image size alone."""
    macs, written, parameters = (
        np.maximum(getattr(rows, name), 5e-3) * scale
        for name, scale in zip(_PUBLISHED, (1e9, 1e6, 1e6), strict=True)
    )
    place = [roof_of_device(device) for device in rows.device.tolist()]
    numbers = [NUMBERS[precision] for precision in rows.precision.tolist()]
    peak = np.array([p.matrix_flops[n] for p, n in zip(place, numbers, strict=True)])
    width = np.array([n.bits / 8 for n in numbers])
    dram = np.array([p.dram_bytes for p in place])
    pixels = 3.0 * rows.image_size**2
    sums = np.column_stack([
        2 * macs / peak, width * written / dram, width * parameters / rows.batch / dram,
        width * pixels / dram, 1e-6 / rows.batch,
    ])  # fmt: skip
    logs = np.log(np.column_stack([macs, written, parameters, pixels]))
    ratios = np.column_stack([logs[:, 0] - logs[:, 1], logs[:, 0] - logs[:, 2]])
    bound = np.log(sums[:, 0] / sums[:, 1])
    return np.nan_to_num(sums), np.column_stack([logs, ratios, bound, np.log(rows.batch)])
