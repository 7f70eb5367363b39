"""``berth evaluate``: errors on a site's own runs that nothing was fitted on."""

from __future__ import annotations

import json
from pathlib import Path

import click

from berth.pilot.documents import write_text
from berth.plugin.cli.columns import columns
from berth.plugin.cli.site_rows import site_input
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import require_training

SHOWN = ("regret", "worst_regret", "kendall_tau", "median_time_error")


@click.command(epilog="Example: berth evaluate profiles/ --reference login-node")
@click.argument("profiles", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--reference", help="Where programs are piloted.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--report", type=click.Path(path_type=Path), help="Folder for the figures as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
def evaluate(
    *,
    profiles: tuple[Path, ...],
    reference: str | None,
    seed: int,
    report: Path | None,
    as_json: bool,
    folder: Path | None,
) -> None:
    """Relative performance by PROFILES of the same workloads on several platforms.

    Each application is left out in turn. PROFILES are folders, JSON, JSON lines, CSV of times.
    """
    site = site_input(profiles, reference, folder)
    require_training("evaluation")
    from berth.predictor.learning.relative import evaluation  # noqa: PLC0415 - needs the extra
    from berth.predictor.learning.relative.family import Entry  # noqa: PLC0415
    from berth.predictor.learning.relative.law import LawFamily  # noqa: PLC0415
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415

    assert site is not None  # noqa: S101 - click asks for a file
    entries = [Entry("law", lambda: (LawFamily(kinds=site.kinds),))]
    kept = Resume(None if report is None else report / "folds")
    with step_bar("evaluating", evaluation.steps(site.rows, entries, (seed,))) as advance:
        found = evaluation.evaluate(
            site.rows, entries, data=site.title, seeds=(seed,), kept=kept, advance=advance
        )
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
    if as_json:
        click.echo(text)
        return
    click.echo(f"{found.data}: {found.rows} rows of {found.applications} applications.")
    rows = [
        (r.split, *(f"{r.figures[key]:.3f}" if key in r.figures else "-" for key in SHOWN))
        for r in found.results
    ]
    click.echo(columns(("split", *SHOWN), rows))
