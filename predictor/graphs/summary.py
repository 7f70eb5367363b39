"""Summarise a graph on one page: totals, operators, and the kinds with most flops and bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import COLUMNS, FAMILIES
from berth.predictor.graphs.values import TYPE_NAMES

HEAVIEST = 5


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """Totals over all nodes with the same operator."""

    operator: str
    family: str
    nodes: int
    macs: int
    flops: int
    parameters: int
    moved_bytes: int
    flops_share: float
    """Share of the graph's flops."""
    moved_share: float

    @property
    def intensity(self) -> float | None:
        """Return flops per byte moved; None where the operator moves no bytes."""
        return self.flops / self.moved_bytes if self.moved_bytes else None


@dataclass(frozen=True, slots=True)
class KindRow:
    """Totals over all nodes of one kind (equal operator, attributes and shapes)."""

    operator: str
    nodes: int
    output_shape: tuple[int, ...]
    kernel: tuple[int, ...]
    flops: int
    """Flops of all these nodes."""
    moved_bytes: int
    intensity: float
    share: float
    """Share of the graph's flops in ``Summary.computing``, of its bytes in ``Summary.moving``."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a graph that ``berth workload model`` prints."""

    graph: ModelGraph
    operators: tuple[OperatorRow, ...]
    """Rows of all operators, most flops first."""
    computing: tuple[KindRow, ...]
    """The kinds with the most flops."""
    moving: tuple[KindRow, ...]
    """The kinds that move the most bytes, of those with fewer flops per byte than the graph."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as the dictionary that ``--json`` prints."""
        g = self.graph
        return {
            "digest": g.digest,
            "producer": g.producer,
            "opset": g.opset,
            "batch": g.batch,
            "inputs": [_port(p.name, p.dtype, p.shape) for p in g.inputs],
            "outputs": [_port(p.name, p.dtype, p.shape) for p in g.outputs],
            "nodes": len(g),
            "edges": g.edges.shape[1],
            "kinds": len(g.kinds),
            "folded_operators": dict(g.folded),
            "parameters": g.parameters,
            "stored_elements": g.stored_elements,
            "stored_bytes": g.stored_bytes,
            "macs": g.total_macs,
            "flops": g.total_flops,
            "moved_bytes": g.total_moved_bytes,
            "activation_bytes": g.activation_bytes,
            "peak_activation_bytes": g.peak_activation_bytes,
            "intensity": intensity(g),
            "operators": [{**asdict(row), "intensity": row.intensity} for row in self.operators],
            "most_computing": [asdict(row) for row in self.computing],
            "most_moving_for_little": [asdict(row) for row in self.moving],
            "repeated_blocks": [asdict(block) for block in g.repeated_blocks],
            "unknown_operators": dict(g.unknown),
            "assumed_shapes": g.assumed_shapes,
        }


def _port(name: str, dtype: int, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"name": name, "type": TYPE_NAMES.get(dtype, str(dtype)), "shape": list(shape)}


def intensity(graph: ModelGraph) -> float:
    """Return the whole graph's flops per byte moved, without caches between operators."""
    return graph.total_flops / max(graph.total_moved_bytes, 1)


def summarise(graph: ModelGraph) -> Summary:
    """Return the totals of a graph, by operator and for its ``HEAVIEST`` kinds of nodes."""
    flops, moved = graph.total_flops, graph.total_moved_bytes
    rows = []
    for place, name in enumerate(graph.operators):
        at = graph.operator == place
        own, bytes_ = int(graph.flops[at].sum()), int(graph.moved_bytes[at].sum())
        rows.append(
            OperatorRow(
                operator=name,
                family=FAMILIES[int(graph.family[at][0])].value,
                nodes=int(np.count_nonzero(at)),
                macs=int(graph.macs[at].sum()),
                flops=own,
                parameters=int(graph.node_parameters[at].sum()),
                moved_bytes=bytes_,
                flops_share=own / max(flops, 1),
                moved_share=bytes_ / max(moved, 1),
            )
        )
    rows.sort(key=lambda row: (-row.flops, -row.moved_bytes, row.operator))
    kinds = [_kind(graph, n) for n in range(len(graph.kinds))]
    by_flops = sorted(kinds, key=lambda row: -row.flops)
    below = [row for row in kinds if row.moved_bytes and row.intensity < intensity(graph)]
    below.sort(key=lambda row: -row.moved_bytes)
    return Summary(
        graph,
        tuple(rows),
        tuple(_shared(row, row.flops, flops) for row in by_flops[:HEAVIEST] if row.flops),
        tuple(_shared(row, row.moved_bytes, moved) for row in below[:HEAVIEST]),
    )


def _kind(graph: ModelGraph, number: int) -> KindRow:
    row = dict(zip(COLUMNS, graph.kinds[number].tolist(), strict=True))
    times = int(np.count_nonzero(graph.kind == number))
    rank = min(row["output_rank"], 6)
    return KindRow(
        operator=graph.operators[int(graph.kind_operator[number])],
        nodes=times,
        output_shape=tuple(row[f"output_{n}"] for n in range(rank)),
        kernel=tuple(size for n in range(3) if (size := row[f"kernel_{n}"])),
        flops=times * row["flops"],
        moved_bytes=times * row["moved_bytes"],
        intensity=row["flops"] / max(row["moved_bytes"], 1),
        share=0.0,
    )


def _shared(row: KindRow, part: int, whole: int) -> KindRow:
    return KindRow(**{**asdict(row), "share": part / max(whole, 1)})
