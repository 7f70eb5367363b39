"""DIPPM's networks, and trees beside them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show


def evaluate(options: Options) -> None:
    """The table of kinds, readouts and trees on the same folds, and what an answer costs."""
    from lab.latency.timm_runs import runs  # noqa: PLC0415
    from lab.published.graph_networks import evaluate as networks  # noqa: PLC0415
    from lab.published.graph_networks import memory as network_memory  # noqa: PLC0415
    from lab.published.graph_networks import speed as network_speed  # noqa: PLC0415
    from lab.published.graph_networks.memory import FOLDS  # noqa: PLC0415

    rows, seed = runs(), options.seed
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
    show(options, document, "\n".join(told), file="graph-networks.json")


def train(options: Options) -> str:
    """The summing GraphSAGE network as a bundle."""
    from lab.latency.timm_runs import runs  # noqa: PLC0415
    from lab.published.graph_networks.fit import Training  # noqa: PLC0415
    from lab.published.graph_networks.train import train as run  # noqa: PLC0415

    training = Training()
    manifest = learn(options, partial(run, rows=runs(), training=training), training.epochs)
    return f"{manifest.id}: {manifest.rows} measurements"
