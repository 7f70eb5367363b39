"""``berth evaluate --task vae``: VAE + DNN by the measures of its abstract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_networks

HEADER = ("data", "split", "family", "R2 (log)", "median error", "order of 4", "ROC")


def evaluate_vae(seeds: Sequence[int], report: Path | None, as_json: bool) -> None:
    """On AIWC and RAJAPerf, seen and unseen applications; with ``report`` a cut run goes on."""
    require_networks("evaluation of VAE + DNN")
    from berth.predictor.evaluation.relative import vae_dnn  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kept import Kept  # noqa: PLC0415

    with step_bar("evaluating", len(vae_dnn.plan()) * len(seeds)) as advance:
        found = vae_dnn.evaluate(
            seeds,
            Kept(None if report is None else report / "folds"),
            advance,
        )
    text = json.dumps([asdict(line) for line in found], indent=1)
    if report is not None:
        write_text(report / "vae-dnn.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    rows = [
        (
            line.data,
            line.split.partition(":")[0],
            line.family,
            _spread(line.r2_log_speedup, "{:.2f}"),
            _spread(line.median_error, "{:.0%}"),
            _spread(line.order_of_four, "{:.0%}"),
            _spread(line.roc_area, "{:.2f}"),
        )
        for line in found
    ]
    click.echo(f"Mean over seeds {', '.join(map(str, seeds))} [least, greatest].")
    click.echo(columns(HEADER, rows))


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    mean, low, high = sum(values) / len(values), min(values), max(values)
    return f"{form.format(mean)} [{form.format(low)}, {form.format(high)}]"
