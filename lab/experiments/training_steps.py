"""The predictor of training steps."""

from __future__ import annotations

from berth.plugin.cli.output.step_bar import step_bar
from berth.predictor.learning.resume import Resume
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show_report


def train(options: Options) -> str:
    """The bundle from timm's training rows and our own."""
    from lab.steps import step_bundle  # noqa: PLC0415 - needs the extra

    manifest = learn(options, step_bundle.train, step_bundle.STEPS)
    rows = sum(head.rows for head in manifest.heads)
    return f"{manifest.id}: {len(manifest.heads)} devices of {rows} rows"


def evaluate(options: Options) -> None:
    """Every split, TraPPM with and without pre-training, baselines, transfer."""
    from lab.steps import evaluate_steps  # noqa: PLC0415 - needs the extra

    with step_bar("evaluating", evaluate_steps.STEPS) as advance:
        found = evaluate_steps.evaluate(options.seed, Resume(options.unfinished), advance)
    show_report(options, found)
