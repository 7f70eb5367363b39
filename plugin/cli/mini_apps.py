"""``berth evaluate --task mini-apps``: platforms never trained on, from benchmark rates."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.training_input import require_training


def evaluate_mini_apps(report: Path | None, as_json: bool) -> None:
    """Every ordered pair of platforms by each method."""
    require_training("evaluation")
    from berth.predictor.datasets.machines import mini_apps  # noqa: PLC0415 - needs the extra
    from berth.predictor.evaluation.relative.mini_apps import (  # noqa: PLC0415
        METHODS,
        SPLIT,
        evaluate,
    )

    found = evaluate(mini_apps())
    text = json.dumps({"split": SPLIT, "apps": [asdict(each) for each in found]}, indent=1)
    if report is not None:
        write_text(report / "mini-apps.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    click.echo(f"Split: {SPLIT}. Median error of the time on the target:")
    header = ("mini-app", "platforms", "pairs", *METHODS)
    rows = [
        (
            each.app,
            str(len(each.platforms)),
            str(len(each.platforms) * (len(each.platforms) - 1)),
            *(f"{each.median_error[name]:.1%}" for name in METHODS),
        )
        for each in found
    ]
    click.echo(columns(header, rows))
