"""Parameters and MACs of the timm graphs beside the published ones.

No split: nothing is fitted. The rules of ``graphs.parameters`` were written with these graphs in
sight, so their share is of how well they describe these exports, not a forecast for others.

The published GMACs are fvcore's: MACs of convolutions and products, and besides two operations an
element of a batch normalisation, five of a layer, group or instance normalisation, one of an
average pooling over a whole image. ``gmacs_published_way`` adds those to our MACs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from lab.datasets.timm import GRAPHS, Architecture, Published, graphs, published
from lab.experiments.experiment import Options
from lab.ground.report import Report, Section

PARAMETERS_WITHIN = 0.005
MACS_WITHIN = 0.02
ROUNDING = 0.005
"""Half of the last published digit, in millions and in GMACs."""
_FLOAT_BYTES = 4
_NORMALISATIONS = ("LayerNormalization", "InstanceNormalization", "GroupNormalization")
_POOLED = ("ReduceMean", "GlobalAveragePool")


@dataclass(frozen=True, slots=True)
class Row:
    """One graph; published values are the nearest of those given."""

    model: str
    image_size: int
    parameters_millions: float
    published_parameters_millions: float
    gmacs: float
    published_gmacs: float
    gmacs_published_way: float
    published_gmacs_of_that_way: float
    unknown_operators: int

    @property
    def parameters_off(self) -> float:
        """Relative."""
        return _relative(self.parameters_millions, self.published_parameters_millions)

    @property
    def macs_off(self) -> float:
        """Return relative, our convention; 0 within rounding."""
        return _off(self.gmacs, self.published_gmacs)

    @property
    def macs_off_published_way(self) -> float:
        """Return relative, fvcore's convention; 0 within rounding."""
        return _off(self.gmacs_published_way, self.published_gmacs_of_that_way)


@dataclass(frozen=True, slots=True)
class Totals:
    """All rows and their shares."""

    rows: tuple[Row, ...]
    source: str

    @property
    def parameters_right(self) -> float:
        """Return share within 0.5 % of the published."""
        return float(np.mean([row.parameters_off <= PARAMETERS_WITHIN for row in self.rows]))

    @property
    def macs_right(self) -> float:
        """Return share of MACs within 2 % of the nearest published (or its rounding)."""
        return float(np.mean([row.macs_off <= MACS_WITHIN for row in self.rows]))

    @property
    def macs_right_published_way(self) -> float:
        """Return the same counted as the published ones are."""
        return float(np.mean([row.macs_off_published_way <= MACS_WITHIN for row in self.rows]))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            "source": self.source,
            "graphs": len(self.rows),
            "unknown_operators": sum(row.unknown_operators for row in self.rows),
            "parameters_within_half_percent": self.parameters_right,
            "macs_within_2_percent": self.macs_right,
            "macs_within_2_percent_published_way": self.macs_right_published_way,
            "rows": [asdict(row) for row in self.rows],
        }


def evaluate_totals(
    found: Iterable[tuple[Architecture, ModelGraph]] | None = None,
    known: dict[Architecture, Published] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Totals:
    """Read every graph at batch 1 and compare. ``advance`` is called once a graph."""
    known = published() if known is None else known
    rows = []
    for architecture, graph in graphs() if found is None else found:
        advance()
        entry = known.get(architecture)
        if entry is not None and entry.gmacs and entry.parameters_millions:
            rows.append(_row(architecture, graph, entry))
    rows.sort(key=lambda row: (row.model, row.image_size))
    return Totals(tuple(rows), f"{GRAPHS.title}; {GRAPHS.source}; {GRAPHS.licence}")


def _row(architecture: Architecture, graph: ModelGraph, entry: Published) -> Row:
    parameters = graph.parameters / 1e6
    own = graph.total_macs / 1e9
    theirs = published_way(graph) / 1e9
    return Row(
        model=architecture.model,
        image_size=architecture.image_size,
        parameters_millions=parameters,
        published_parameters_millions=_nearest(parameters, entry.parameters_millions),
        gmacs=own,
        published_gmacs=_nearest(own, entry.gmacs),
        gmacs_published_way=theirs,
        published_gmacs_of_that_way=_nearest(theirs, entry.gmacs),
        unknown_operators=sum(graph.unknown.values()),
    )


def published_way(graph: ModelGraph) -> int:
    """MACs with fvcore's operations of normalisations and global pooling, all for one batch."""
    names = np.array(graph.operators)[graph.operator]
    written = graph.output_bytes // _FLOAT_BYTES
    swallowed = (names == "Conv") & (
        graph.node_parameters * _FLOAT_BYTES > graph.weight_bytes
    )  # a batch normalisation is inside
    extra = 2 * written[(names == "BatchNormalization") | swallowed].sum()
    extra += 5 * written[np.isin(names, _NORMALISATIONS)].sum()
    extra += (graph.input_bytes[np.isin(names, _POOLED)] // _FLOAT_BYTES).sum()
    return graph.total_macs + int(extra)


def _nearest(value: float, given: tuple[float, ...]) -> float:
    return min(given, key=lambda other: abs(value - other))


def _off(value: float, given: float) -> float:
    return 0.0 if abs(value - given) <= ROUNDING else _relative(value, given)


def _relative(value: float, given: float) -> float:
    return abs(value / given - 1) if given else float("inf")


_HEADER = ("model", "image", "M parameters", "published", "GMACs", "published")


def evaluate(_: Options) -> Report:
    """Report how many graphs agree with the published totals, and those that do not."""
    found = evaluate_totals()
    unknown = sum(row.unknown_operators for row in found.rows)
    rows = [
        (
            row.model, str(row.image_size), f"{row.parameters_millions:.3f}",
            f"{row.published_parameters_millions:.2f}", f"{row.gmacs_published_way:.3f}",
            f"{row.published_gmacs_of_that_way:.2f}",
        )
        for row in found.rows
        if row.parameters_off > PARAMETERS_WITHIN
        or row.macs_off_published_way > MACS_WITHIN
    ]  # fmt: skip
    return Report(
        "Parameters and MACs of the timm graphs beside the published ones",
        (
            f"{len(found.rows)} graphs at batch 1: {found.source}. Nothing is fitted: no split.",
            f"unknown operators: {unknown} nodes",
            f"parameters within 0.5 % of the published: {found.parameters_right:.1%}",
            f"GMACs within 2 % of the nearest published or its rounding: {found.macs_right:.1%} as "
            f"MACs, {found.macs_right_published_way:.1%} with normalisations and global pooling "
            "counted as fvcore does",
        ),
        (Section("beyond, counted the published way", _HEADER, rows),),
        found.as_dict(),
    )
