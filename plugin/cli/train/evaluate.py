"""``berth evaluate``: errors on a site's own runs that nothing was fitted on, beside baselines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.pilot.documents import write_text
from berth.pilot.errors import UsageError
from berth.plugin.cli.output.columns import columns
from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.cli.train.site_rows import site_input
from berth.plugin.cli.train.training_input import require_training

if TYPE_CHECKING:
    from berth.predictor.learning.relative.evaluation import Result

SHOWN = (
    ("regret", "regret", "{:.3f}"),
    ("worst", "worst_regret", "{:.2f}"),
    ("Kendall tau", "kendall_tau", "{:.3f}"),
    ("median error", "median_time_error", "{:.1%}"),
)
MEANING = (
    "Regret: time on the platform picked over the least time, geometric mean over applications; "
    "worst: of one application. Error: of the times, median of an application, averaged."
)


@click.command(epilog="Example: berth evaluate profiles/ --reference login-node")
@click.argument("profiles", nargs=-1, type=click.Path(path_type=Path))
@click.option("--task", type=click.Choice(("relative-performance", "relative")), hidden=True)
@click.option("--reference", help="Where programs are piloted.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Folder for the figures as JSON and a picture of each application; finished folds are "
    "cached in it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--platforms", "folder", type=click.Path(path_type=Path), help="A site's own platform files."
)
def evaluate(
    *,
    profiles: tuple[Path, ...],
    task: str | None,  # noqa: ARG001 - what older scripts pass
    reference: str | None,
    seed: int,
    report: Path | None,
    as_json: bool,
    folder: Path | None,
) -> None:
    """How good relative performance is on PROFILES of the same workloads on several platforms.

    Every application, every size and random rows are left out in turn; beside the cost model stand
    the platform that is best on average and the most similar workload. PROFILES are folders, JSON,
    JSON lines and CSV of times.
    """
    site = site_input(profiles, reference, folder)
    if site is None:
        raise UsageError(
            "no PROFILES are given",
            hint="profiles of programs on several platforms; `python -m lab` evaluates on public "
            "data",
        )
    require_training("evaluation")
    from berth.plugin.pictures.applications import draw_applications  # noqa: PLC0415
    from berth.predictor.learning.relative import evaluation  # noqa: PLC0415 - needs the extra
    from berth.predictor.learning.relative.baselines import BASELINES  # noqa: PLC0415
    from berth.predictor.learning.relative.cost_model_family import CostModelFamily  # noqa: PLC0415
    from berth.predictor.learning.relative.family import Entry  # noqa: PLC0415
    from berth.predictor.learning.resume import Resume  # noqa: PLC0415

    model = CostModelFamily(kinds=site.kinds)
    entries = [Entry("cost model", lambda: (model,)), Entry("baselines", lambda: BASELINES)]
    resume = Resume(None if report is None else report / "folds")
    with step_bar("evaluating", evaluation.steps(site.rows, entries, (seed,))) as advance:
        found = evaluation.evaluate(
            site.rows, entries, data=site.title, seeds=(seed,), resume=resume, advance=advance
        )
    text = json.dumps(found.as_dict(), indent=1)
    if report is not None:
        write_text(report / "evaluation.json", text + "\n")
        draw_applications(site.rows, model, report, seed)
    if as_json:
        click.echo(text)
        return
    click.echo(f"{found.data}: {found.rows} rows of {found.applications} applications.\n{MEANING}")
    for split in evaluation.SHOWN:
        if results := [result for result in found.results if result.split == split.name]:
            click.echo(f"\n{split.name}: {split.what}\n{_table(results)}")


def _table(results: Sequence[Result]) -> str:
    rows = [
        (one.family, *(form.format(one.figures[key]) for _, key, form in SHOWN)) for one in results
    ]
    return columns(("method", *(title for title, _, _ in SHOWN)), rows)
