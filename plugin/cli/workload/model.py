"""``berth workload model``: shows what Berth reads from a deep-learning model before any run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from berth.pilot.units import format_bytes, format_count
from berth.plugin.cli.options import PATH, table_json_option
from berth.plugin.cli.workload.options import read_sizes
from berth.plugin.report.terminal import columns
from berth.predictor.graphs.front_ends.any_model import of_path
from berth.predictor.graphs.summary import KindRow, Summary, intensity, summarise


@click.command(epilog="Example: berth workload model resnet50.onnx --batch 8")
@click.argument("path", metavar="MODEL", type=PATH)
@click.option("--batch", type=int, help="Samples at once (default: 1, or the model's fixed batch).")
@click.option("--dim", "sizes", multiple=True, help="NAME=SIZE of another open dimension.")
@table_json_option
def model(path: Path, batch: int | None, sizes: tuple[str, ...], json_: bool) -> None:
    """Operations, parameters and bytes of MODEL, operator by operator.

    MODEL is an ONNX file, or a Hugging Face config.json (its weights are not needed; the libraries
    of berth[frameworks] are).
    """
    page = summarise(of_path(path, batch=batch, sizes=read_sizes(sizes)))
    if json_:
        click.echo(json.dumps(page.as_dict(), indent=1))
        return
    _show(path.name, page)


def _show(name: str, page: Summary) -> None:
    g = page.graph
    inputs = ", ".join(f"{p.name} {list(p.shape)}" for p in g.inputs)
    click.echo(f"{name}: {len(g)} nodes, opset {g.opset}, batch {g.batch}; {inputs}")
    click.echo(
        f"  {format_count(g.parameters)} parameters ({format_bytes(g.stored_bytes)} in the file), "
        f"{_of(g.total_macs, 'MACs')}, {_of(g.total_flops, 'FLOPs')}"
    )
    click.echo(
        f"  activations {format_bytes(g.activation_bytes)}, at most "
        f"{format_bytes(g.peak_activation_bytes)} at once; "
        f"{format_bytes(g.total_moved_bytes)} moved, {intensity(g):.1f} FLOPs a byte"
    )
    for block in g.repeated_blocks[:3]:
        last = block.first + block.length * block.count - 1
        click.echo(
            f"  nodes {block.first} to {last}: {block.count} times the same {block.length} nodes"
        )
    header = (
        "operator",
        "nodes",
        "MACs",
        "FLOPs",
        "share",
        "parameters",
        "moved",
        "share",
        "FLOPs/byte",
    )
    rows = [
        (
            row.operator, str(row.nodes), format_count(row.macs), format_count(row.flops),
            f"{row.flops_share:.1%}", format_count(row.parameters), format_bytes(row.moved_bytes),
            f"{row.moved_share:.1%}", "-" if row.intensity is None else f"{row.intensity:.1f}",
        )
        for row in page.operators
    ]  # fmt: skip
    click.echo("\n" + columns(header, rows))
    _show_kinds("Computes most", "of the FLOPs", page.computing)
    _show_kinds("Moves most for little computing", "of the bytes", page.moving)
    if g.unknown:
        named = ", ".join(f"{name} ({count})" for name, count in sorted(g.unknown.items()))
        click.echo(f"\nUnknown operators, counted as no operations: {named}")
        if g.assumed_shapes:
            click.echo(f"  {g.assumed_shapes} of their outputs are taken to be like their inputs")


def _of(count: int, unit: str) -> str:
    """Write a count with its unit: ``12 FLOPs``, ``4.1 GFLOPs``."""
    text = format_count(count)
    return text + unit if " " in text else f"{text} {unit}"


def _show_kinds(title: str, share: str, rows: Sequence[KindRow]) -> None:
    if not rows:
        return
    click.echo(f"\n{title}")
    table = [
        (
            row.operator + (" " + "x".join(map(str, row.kernel)) if row.kernel else ""),
            f"to {list(row.output_shape)}", f"{row.nodes}x", f"{row.share:.1%}",
            f"{row.intensity:.1f}",
        )
        for row in rows
    ]  # fmt: skip
    click.echo(columns(("operator", "output", "nodes", share, "FLOPs/byte"), table))
