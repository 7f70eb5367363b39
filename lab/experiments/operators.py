"""The operator model."""

from __future__ import annotations

from berth.plugin.cli.output.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show_report


def train(options: Options) -> str:
    """The bundle from NeuSight's operators."""
    from lab.operators import operator_bundle  # noqa: PLC0415 - needs the extra

    manifest = learn(options, operator_bundle.train, operator_bundle.STEPS)
    return f"{manifest.id}: {manifest.training.rows} operator rows"


def evaluate(options: Options) -> None:
    """Operators, whole models and image models on GPUs that nothing was fitted on."""
    from lab.operators import evaluate_operators  # noqa: PLC0415 - needs the extra

    with step_bar("evaluating", evaluate_operators.STEPS) as advance:
        found = evaluate_operators.evaluate(options.seed, advance)
    show_report(options, found)
