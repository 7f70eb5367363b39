"""``berth workload model``: shows what Berth reads from a deep-learning model before any run."""

from __future__ import annotations

from pathlib import Path

import click

from berth.plugin.cli.options import PATH, answer, json_option
from berth.plugin.cli.workload.options import read_sizes
from berth.plugin.report.of_graph import graph_report
from berth.predictor.graphs.front_ends.any_model import of_path
from berth.predictor.graphs.summary import summarise


@click.command(epilog="Example: berth workload model resnet50.onnx --batch 8")
@click.argument("path", metavar="MODEL", type=PATH)
@click.option("--batch", type=int, help="Samples at once (default: 1, or the model's fixed batch).")
@click.option("--dim", "sizes", multiple=True, help="NAME=SIZE of another open dimension.")
@json_option
def model(path: Path, batch: int | None, sizes: tuple[str, ...], json_: bool) -> None:
    """Operations, parameters and bytes of MODEL, operator by operator.

    MODEL is an ONNX file, or a Hugging Face config.json (its weights are not needed; the libraries
    of berth[frameworks] are).
    """
    summary = summarise(of_path(path, batch=batch, sizes=read_sizes(sizes)))
    answer(lambda: graph_report(path.name, summary), summary.as_dict, json_=json_)
