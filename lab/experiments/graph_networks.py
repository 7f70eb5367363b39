"""DIPPM's networks, and trees beside them."""

from __future__ import annotations

from berth.plugin.cli.output.step_bar import step_bar
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
