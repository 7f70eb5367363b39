"""``berth evaluate --task xamm``: the paper's ablations with tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_networks


def evaluate_xamm(seeds: Sequence[int], report: Path | None, as_json: bool) -> None:
    """Every ablation on the AIWC data set; with ``report``, a run cut short goes on."""
    require_networks("evaluation of xAMM")
    from berth.predictor.evaluation.relative.xamm import ablation, pictures  # noqa: PLC0415
    from berth.predictor.evaluation.relative.xamm.plan import (  # noqa: PLC0415
        NEW_TARGET,
        SCENARIOS,
        tried,
    )
    from berth.predictor.evaluation.relative.xamm.report import (  # noqa: PLC0415
        HEADER,
        SPLIT,
        table,
        write_report,
    )
    from berth.predictor.training.kept import Kept  # noqa: PLC0415
    from berth.predictor.training.relative.data import aiwc_rows  # noqa: PLC0415

    rows, scenarios = aiwc_rows(), (*SCENARIOS, NEW_TARGET)
    with step_bar("ablations", ablation.steps(rows, seeds) * len(scenarios)) as advance:
        kept = Kept(None if report is None else report / "folds")
        found = [
            ablation.ablate(rows, s, seeds=seeds, kept=kept, advance=advance) for s in scenarios
        ]
    if report is not None:
        names = pictures.bars(found, report)
        picture, parted = pictures.embeddings(rows, seeds[0], report)
        write_report(found, seeds, report, [*names, picture], parted)
    if as_json:
        click.echo(json.dumps([row for f in found for row in ablation.as_rows(f)], indent=1))
        return
    click.echo(f"Split: {SPLIT}.")
    for each in found:
        click.echo(f"\n{each.scenario.name}: {each.samples} held-out samples")
        click.echo(columns(HEADER[1:], [row[1:] for row in table(each, tried(each.scenario))]))
