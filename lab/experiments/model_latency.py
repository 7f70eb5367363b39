"""The learnt time of model graphs."""

from __future__ import annotations

from berth.pilot.errors import UsageError
from berth.plugin.cli.output.step_bar import step_bar
from lab.experiments.learn import learn
from lab.experiments.options import Options
from lab.experiments.shown import show_report


def train(options: Options) -> str:
    """The bundle from timm's measurements and our own runs."""
    from lab.latency import latency_bundle  # noqa: PLC0415 - needs the extra

    manifest = learn(options, latency_bundle.train, latency_bundle.STEPS)
    rows = sum(one.rows for one in manifest.settings)
    return f"{manifest.id}: {len(manifest.settings)} settings, {rows} rows"


def evaluate(options: Options) -> None:
    """The parts in ``only`` (default: all)."""
    from lab.latency import evaluate_latency  # noqa: PLC0415 - needs the extra

    every = evaluate_latency.PARTS
    if stray := next((name for name in options.only if name not in every), None):
        raise UsageError(f"there is no part {stray!r}", hint=f"--only {'|'.join(every)}")
    parts = tuple(part for part in every if part in options.only) or every
    with step_bar("evaluating", evaluate_latency.steps(parts)) as advance:
        found = evaluate_latency.evaluate(options.seed, parts, advance)
    show_report(options, found)
