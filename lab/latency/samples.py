"""The measured rows as input of the latency model: terms and descriptors of each row's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from berth.predictor.families.graph.latency.features import WorkByKind
from berth.predictor.families.graph.latency.process import DESCRIPTORS, TERMS, descriptors, terms
from lab.datasets.timm import Architecture
from lab.ground.splits import Split
from lab.ground.table import Flags, Floats, Strings, Table
from lab.latency import described_graphs
from lab.latency.fit_latency import Sample, learnt
from lab.latency.model_names import architectures
from lab.latency.timm_devices import platform_of
from lab.latency.timm_runs import Runs, graphs, roof_rows, runs


@dataclass(frozen=True)
class Samples(Table):
    """All measured rows of inference."""

    rows: Runs
    graph: Flags
    """True where a graph of the network at its image size is in the archive or described."""
    by_graph: Sample
    """Computed from graphs; zeros where there is no graph."""


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
    known_graph = np.array([one is not None for one in work])
    return Samples(rows, known_graph, sample_of(rows, work, settings(rows), rows.architecture))


def left_out(split: Split, seed: int, advance: Callable[..., None] = lambda *_: None) -> Floats:
    """Return ``fit_latency.predicted`` of every row, each by a fit on the other folds of ``split``.

    Shape [rows, 3]; NaN where a row has no graph.
    """
    data, found = samples(), np.full((len(samples()), 3), np.nan)
    sample = replace(data.by_graph, group=split.groups(data.rows))
    for fold in split.folds(data.rows, seed):
        train, test = (part[data.graph[part]] for part in (fold.train, fold.test))
        found[test] = learnt(sample[train], sample[test], seed)
        advance(split.name)
    return found


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
