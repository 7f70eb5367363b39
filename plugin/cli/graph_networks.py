"""``berth train|evaluate --task graph-networks``: DIPPM's networks, and trees beside them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import read_figures, require_networks

TASK = "graph-networks"


def evaluate_graph_networks(seed: int, report: Path | None, *, as_json: bool) -> None:
    """The table of kinds, readouts and trees on the same folds, and what an answer costs."""
    require_networks("evaluation of graph networks")
    from berth.predictor.evaluation.latency import (  # noqa: PLC0415 - needs the extra
        network_memory,
        network_speed,
        networks,
    )
    from berth.predictor.evaluation.latency.splits import FOLDS  # noqa: PLC0415
    from berth.predictor.training.latency.data import runs  # noqa: PLC0415

    rows = runs()
    with step_bar("evaluating", networks.steps() + FOLDS) as advance:
        found = networks.evaluate(rows, seed=seed, advance=advance)
        own = network_memory.evaluate_measured(seed=seed, advance=advance)
    costs = network_speed.speed(rows, seed=seed)
    document = {
        **found.as_dict(),
        "own_runs": [asdict(one) for one in own],
        "costs": [asdict(one) for one in costs],
    }
    text = json.dumps(document, indent=1)
    if report is not None:
        write_text(report / "graph-networks.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    click.echo(
        f"{found.rows} measurements of {found.models} models of {found.families} families that "
        "have a graph."
    )
    click.echo(columns(networks.HEADER, [result.cells() for result in found.results]))
    click.echo("\nour own runs on one CPU core (sage, sum), unseen models")
    click.echo(columns(network_memory.HEADER, [one.cells() for one in own]))
    click.echo()
    click.echo(columns(network_speed.HEADER, [one.cells() for one in costs]))


def train_graph_networks(out: Path, seed: int, figures: Path | None) -> None:
    """The summing GraphSAGE network as a bundle."""
    require_networks("training of graph networks")
    from berth.predictor.training.latency.data import runs  # noqa: PLC0415
    from berth.predictor.training.latency.networks.fit import Training  # noqa: PLC0415
    from berth.predictor.training.latency.networks.train import train  # noqa: PLC0415

    shown = {} if figures is None else read_figures(figures)
    rows, training = runs(), Training()
    with step_bar("training", training.epochs) as advance:
        manifest = train(
            out, rows, command=" ".join(["berth", *sys.argv[1:]]), seed=seed, figures=shown,
            training=training, advance=advance,
        )  # fmt: skip
    click.echo(f"{manifest.id}: {manifest.rows} measurements, written to {out}")
