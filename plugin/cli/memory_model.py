"""``berth evaluate --task memory``: predicted memory of model graphs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_training


def evaluate_memory(report: Path | None, as_json: bool) -> None:
    """Table 4.5, MISO's slices and our own runs, each model left out, with rivals."""
    require_training("evaluation")
    from berth.predictor.evaluation.footprint import run  # noqa: PLC0415 - needs the extra

    with step_bar("evaluating", run.STEPS) as advance:
        found = run.evaluate_memory(advance)
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        write_text(report / "memory.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    for title, header, rows in found.tables():
        click.echo(f"{title}\n{columns(header, rows)}\n")
    wrong = ", ".join(found.slices.rows[0].wrong) or "none"
    click.echo(f"Refused slices that would have run: {wrong}.")
    click.echo("Unverified: inference without recording, other GPUs and precisions, energy.")
