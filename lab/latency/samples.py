"""The measured rows as input of the latency model: terms and descriptors of each row.

They are computed from the model's graph, or, where there is none, from its published totals (MACs,
activations, parameters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import WorkByKind
from berth.predictor.families.graph.latency.process import DESCRIPTORS, TERMS, descriptors, terms
from lab.datasets.timm import Architecture
from lab.ground.table import Flags, Floats, Strings, Table
from lab.latency import described_graphs
from lab.latency.fit_latency import Sample
from lab.latency.model_names import architectures
from lab.latency.timm_devices import NUMBERS, platform_of, roof_of_device
from lab.latency.timm_runs import Runs, graphs, roof_rows, runs

_PUBLISHED = ("gmacs", "macts", "parameters")


@dataclass(frozen=True)
class Samples(Table):
    """All measured rows of inference."""

    rows: Runs
    graph: Flags
    """True where a graph of the network at its image size is in the archive or described."""
    by_graph: Sample
    """Computed from graphs; zeros where there is no graph."""
    by_totals: Sample
    """Computed from published totals; NaN descriptors where a total is not published."""

    @property
    def totals(self) -> Flags:
        """Return a mask of the rows whose totals are all published."""
        return np.asarray(~np.isnan(self.by_totals.descriptors).any(axis=1))

    def grouped(self, group: Strings) -> Samples:
        """Return the samples with another column ``group``, by which rows are held out."""
        by_graph, by_totals = (replace(one, group=group) for one in (self.by_graph, self.by_totals))
        return replace(self, by_graph=by_graph, by_totals=by_totals)


def settings(rows: Runs) -> Strings:
    """Return the setting of each row by name: ``platform | precision | layout | software``."""
    columns = (rows.device, rows.precision, rows.layout, rows.torch, rows.compiled)
    return np.array([
        f"{platform_of(device)} | {precision} | {layout} | torch {_version(torch)}"
        f"{', compiled' if compiled else ''}"
        for device, precision, layout, torch, compiled in zip(
            *(one.tolist() for one in columns), strict=True
        )
    ])  # fmt: skip


def _version(digits: int) -> str:
    """Return torch's version with dots: 113 is 1.13, 291 is 2.9.1."""
    if digits < 200:
        return f"1.{digits % 100}"
    return f"{digits // 100}.{digits // 10 % 10}.{digits % 10}"


@cache
def samples() -> Samples:
    """Return all samples, read once per process (10 s). Raises ToolMissing, DocumentError."""
    rows, known, first = runs(), works(), architectures()
    by_network: dict[Architecture, tuple[WorkByKind, Floats]] = {}
    for one, found in known.items():
        by_network.setdefault(Architecture(first.get(one.model, one.model), one.image_size), found)
    names = zip(
        rows.model.tolist(), rows.architecture.tolist(), rows.image_size.tolist(), strict=True
    )
    work = [
        known.get(Architecture(model, size)) or by_network.get(Architecture(network, size))
        for model, network, size in names
    ]
    setting, log_seconds, group = settings(rows), np.log(rows.seconds), rows.architecture
    totals, columns = by_totals(rows)
    return Samples(
        rows, np.array([one is not None for one in work]),
        sample_of(rows, work, setting, group),
        Sample(setting, group, totals, columns, log_seconds),
    )  # fmt: skip


def works() -> dict[Architecture, tuple[WorkByKind, Floats]]:
    """Return work and features of all graphs; the archive has precedence over described graphs."""
    found = graphs()
    known = {one: (d.work, d.features) for one, d in described_graphs.read().items()}
    own = zip(found.architectures, found.work, found.features, strict=True)
    known.update({one: (work, features) for one, work, features in own})
    return known


def sample_of(
    rows: Runs, work: Sequence[tuple[WorkByKind, Floats] | None], setting: Strings, group: Strings
) -> Sample:
    """Return a sample from the work and features of each row's graph; zeros where that is None."""
    have = np.array([n for n, one in enumerate(work) if one is not None], np.int64)
    known = [one for one in work if one is not None]
    roof = roof_rows(rows[have], [one[0] for one in known])
    graph, batch = np.array([one[1] for one in known]), rows.batch[have].astype(np.float64)
    found = np.zeros((len(rows), len(TERMS))), np.zeros((len(rows), len(DESCRIPTORS)))
    found[0][have] = terms(graph, roof, batch)
    found[1][have] = descriptors(graph, roof, batch)
    return Sample(setting, group, *found, np.log(rows.seconds))


def by_totals(rows: Runs) -> tuple[Floats, Floats]:
    """Return (terms, descriptors), [rows, ...] each, from published totals and the image size."""
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
