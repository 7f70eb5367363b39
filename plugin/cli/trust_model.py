"""``berth evaluate --task trust``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_training


def evaluate_trust(seed: int, groups: Sequence[str], report: Path | None, as_json: bool) -> None:
    """Intervals, abstention and probe advice of every family on the AIWC data set.

    With ``report`` the folds that are done are kept in it: a run cut short goes on from there.
    """
    require_training("evaluation")
    from berth.predictor.datasets.aiwc import AIWC  # noqa: PLC0415 - needs the extra
    from berth.predictor.evaluation.relative import families, trust_run  # noqa: PLC0415
    from berth.predictor.evaluation.relative.run import loaded  # noqa: PLC0415
    from berth.predictor.evaluation.relative.trust_report import (  # noqa: PLC0415
        tables,
        write_trust_report,
    )
    from berth.predictor.training.kept import Kept  # noqa: PLC0415
    from berth.predictor.training.relative.data import aiwc_rows  # noqa: PLC0415

    entries, rows = families.chosen(groups), aiwc_rows()
    total = trust_run.steps(rows, len(loaded(entries)[0]))
    with step_bar("evaluating", total) as advance:
        found = trust_run.evaluate_trust(
            rows,
            entries,
            data=f"{AIWC.title} ({AIWC.licence})",
            seed=seed,
            kept=Kept(None if report is None else report / "folds"),
            advance=advance,
        )
    if report is not None:
        write_trust_report(found, report)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
        return
    click.echo(f"{found.data}: {found.rows} rows of {found.applications} applications.")
    click.echo(f"Split: {found.split}.")
    for title, header, lines in tables(found):
        click.echo(f"\n{title}")
        click.echo(columns(header, lines))
    for group, why in found.left_out.items():
        click.echo(f"left out: {group} ({why})")
