"""``berth train|evaluate --task graph-networks``: DIPPM's networks, and trees beside them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.commands.asked import Asked
from lab.commands.inputs import require_networks
from lab.commands.learn import learn
from lab.commands.shown import show


def evaluate(asked: Asked) -> None:
    """The table of kinds, readouts and trees on the same folds, and what an answer costs."""
    require_networks("evaluation of graph networks")
    from lab.latency.data import runs  # noqa: PLC0415
    from lab.latency.splits import FOLDS  # noqa: PLC0415
    from lab.published.graph_networks import evaluate as networks  # noqa: PLC0415
    from lab.published.graph_networks import memory as network_memory  # noqa: PLC0415
    from lab.published.graph_networks import speed as network_speed  # noqa: PLC0415

    rows, seed = runs(), asked.seed
    with step_bar("evaluating", networks.steps() + FOLDS) as advance:
        found = networks.evaluate(rows, seed=seed, advance=advance)
        own = network_memory.evaluate_measured(seed=seed, advance=advance)
    costs = network_speed.speed(rows, seed=seed)
    document = {
        **found.as_dict(),
        "own_runs": [asdict(one) for one in own],
        "costs": [asdict(one) for one in costs],
    }
    told = [
        f"{found.rows} measurements of {found.models} models of {found.families} families that "
        "have a graph.",
        columns(networks.HEADER, [result.cells() for result in found.results]),
        "\nour own runs on one CPU core (sage, sum), unseen models",
        columns(network_memory.HEADER, [one.cells() for one in own]),
        "",
        columns(network_speed.HEADER, [one.cells() for one in costs]),
    ]
    show(asked, document, "\n".join(told), file="graph-networks.json")


def train(asked: Asked) -> None:
    """The summing GraphSAGE network as a bundle."""
    require_networks("training of graph networks")
    from lab.latency.data import runs  # noqa: PLC0415
    from lab.published.graph_networks.fit import Training  # noqa: PLC0415
    from lab.published.graph_networks.train import train as run  # noqa: PLC0415

    training = Training()
    manifest = learn(asked, partial(run, rows=runs(), training=training), training.epochs)
    click.echo(f"{manifest.id}: {manifest.rows} measurements, written to {asked.bundle}")
