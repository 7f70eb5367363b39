"""DIPPM's networks, and trees beside them."""

from __future__ import annotations

from functools import partial

from berth.plugin.cli.output.step_bar import step_bar
from berth.predictor.learning.resume import Resume
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show_report


def evaluate(options: Options) -> None:
    """The table of kinds, readouts and trees on the same folds, and what an answer costs."""
    from lab.latency import timm_runs  # noqa: PLC0415 - needs the extra
    from lab.published.graph_networks import evaluate_networks as networks  # noqa: PLC0415

    parts = networks.plan(networks.TRAINING)
    with step_bar("evaluating", networks.steps(parts)) as advance:
        found = networks.evaluate(timm_runs.runs(), parts, seed=options.seed, advance=advance)
    show_report(options, found, "graph-networks")


def train(options: Options) -> str:
    """The summing GraphSAGE network as a bundle, with its errors on held-out models."""
    from lab.latency import timm_runs  # noqa: PLC0415 - needs the extra
    from lab.published.graph_networks import network_bundle, network_errors  # noqa: PLC0415
    from lab.published.graph_networks.fit_network import Training  # noqa: PLC0415

    training, rows = Training(), timm_runs.runs()
    with step_bar("errors on held-out models", network_errors.STEPS) as advance:
        errors = network_errors.network_errors(
            rows, training, seed=options.seed, resume=Resume(options.unfinished), advance=advance
        )
    run = partial(network_bundle.train, rows=rows, training=training, errors=errors)
    manifest = learn(options, run, training.epochs)
    return f"{manifest.id}: {manifest.rows} measurements"
