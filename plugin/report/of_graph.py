"""Reports a deep-learning model's graph: totals, operators, and what computes or moves most."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.units import format_bytes, format_count
from berth.plugin.report.parts import Column, Part, Report, Table
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.summary import KindRow, OperatorRow, Summary, intensity

_BLOCKS = 3
"""Repeated blocks that are named."""
OPERATORS: tuple[Column[OperatorRow], ...] = (
    Column("Operator", "operator", lambda row: row.operator),
    Column("Nodes", "nodes", lambda row: row.nodes, kind=float),
    Column("MACs", "macs", lambda row: row.macs, format_count, kind=float),
    Column("FLOPs", "flops", lambda row: row.flops, format_count, kind=float),
    Column(
        "Share of FLOPs", "flops_share", lambda row: row.flops_share, "{:.1%}".format, kind=float
    ),
    Column("Parameters", "parameters", lambda row: row.parameters, format_count, kind=float),
    Column("Moved", "moved_bytes", lambda row: row.moved_bytes, format_bytes, "bytes"),
    Column(
        "Share of bytes", "moved_share", lambda row: row.moved_share, "{:.1%}".format, kind=float
    ),
    Column("FLOPs/byte", "intensity", lambda row: row.intensity, "{:.1f}".format, kind=float),
)
"""The columns of a graph's operators."""


def _kinds(share: str) -> tuple[Column[KindRow], ...]:
    """Make the columns of nodes that do the same; ``share``: of what their share is."""
    return (
        Column("Operator", "operator", lambda row: row.operator),
        Column("Kernel", "kernel", lambda row: list(row.kernel) or None,
               lambda kernel: "x".join(map(str, kernel)), kind=list[float]),
        Column("Output", "output_shape", lambda row: list(row.output_shape), kind=list[float]),
        Column("Nodes", "nodes", lambda row: row.nodes, kind=float),
        Column(share, "share", lambda row: row.share, "{:.1%}".format, kind=float),
        Column("FLOPs/byte", "intensity", lambda row: row.intensity, "{:.1f}".format, kind=float),
    )  # fmt: skip


def graph_report(name: str, summary: Summary) -> Report:
    """Return the report of the graph that was read from the file ``name``."""
    graph = summary.graph
    inputs = ", ".join(f"{port.name} {list(port.shape)}" for port in graph.inputs)
    headline = f"{name}: {len(graph)} nodes, opset {graph.opset}, batch {graph.batch}; {inputs}"
    tables: list[Table[OperatorRow] | Table[KindRow]] = [
        Table("Operators", OPERATORS, summary.operators)
    ]
    for caption, share, rows in (
        ("Computes most", "Share of FLOPs", summary.computing),
        ("Moves most for little computing", "Share of bytes", summary.moving),
    ):
        tables += [Table(caption, _kinds(share), rows)] if rows else []
    part = Part("", facts=_totals(graph), tables=tables, notes=_notes(graph))
    return Report("", headline, [part])


def _totals(graph: ModelGraph) -> Sequence[tuple[str, str]]:
    stored = f"{format_bytes(graph.stored_bytes)} in the file"
    peak = f"at most {format_bytes(graph.peak_activation_bytes)} at once"
    return (
        ("parameters", f"{format_count(graph.parameters)} ({stored})"),
        ("MACs", format_count(graph.total_macs)),
        ("FLOPs", f"{format_count(graph.total_flops)}, {intensity(graph):.1f} a byte"),
        ("moved", format_bytes(graph.total_moved_bytes)),
        ("activations", f"{format_bytes(graph.activation_bytes)}, {peak}"),
        *(
            (f"nodes {block.first} to {block.first + block.length * block.count - 1}",
             f"{block.count} times the same {block.length} nodes")
            for block in graph.repeated_blocks[:_BLOCKS]
        ),
    )  # fmt: skip


def _notes(graph: ModelGraph) -> Sequence[str]:
    if not graph.unknown:
        return ()
    named = ", ".join(f"{name} ({count})" for name, count in sorted(graph.unknown.items()))
    notes = [f"Unknown operators, counted as no operations: {named}"]
    if graph.assumed_shapes:
        notes.append(f"{graph.assumed_shapes} of their outputs are taken to be like their inputs")
    return notes
