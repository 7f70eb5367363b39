"""``berth train|evaluate --task kernels``: the shipped predictor of programs."""

from __future__ import annotations

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.tasks.asked import Asked
from berth.plugin.cli.tasks.kernels_adapt import adapt_bundle
from berth.plugin.cli.tasks.shown import show
from berth.plugin.cli.tasks.step_bar import step_bar
from berth.plugin.cli.training_input import (
    command_line,
    read_examples,
    read_figures,
    require_training,
)
from berth.predictor import platforms as known


def train(asked: Asked) -> None:
    """The bundle from kernel profiles and published times; with --adapt another's new platform."""
    if asked.adapt is not None and asked.platform is not None:
        adapt_bundle(asked, asked.adapt, asked.platform)
        return
    require_training("training")
    from berth.predictor.datasets.rajaperf import LABELS  # noqa: PLC0415 - needs the extra
    from berth.predictor.training.kernels.train import train as run  # noqa: PLC0415

    examples = read_examples(asked.profiles[0] if asked.profiles else None)
    shown = read_figures(asked.figures)
    with step_bar("training", len(LABELS) + 1) as advance:
        manifest = run(
            examples,
            known.load(asked.folder),
            asked.bundle,
            seed=asked.seed,
            command=command_line(),
            figures=shown,
            advance=advance,
        )
    click.echo(f"{manifest.id}: {manifest.training.rows} profiles, written to {asked.bundle}")


def evaluate(asked: Asked) -> None:
    """Nested leave-one-kernel-out."""
    require_training("evaluation")
    from berth.predictor.evaluation.kernels import run  # noqa: PLC0415 - needs the extra
    from berth.predictor.evaluation.kernels.explained_kernels import draw_kernels  # noqa: PLC0415
    from berth.predictor.evaluation.kernels.report import (  # noqa: PLC0415
        HEADER,
        by_task,
        table,
        write_report,
    )
    from berth.predictor.predictor import Predictor  # noqa: PLC0415

    examples = read_examples(asked.profiles[0] if asked.profiles else None)
    platforms = known.load(asked.folder)
    with step_bar("evaluating", run.steps(examples, platforms)) as advance:
        found = run.evaluate(examples, platforms, seed=asked.seed, jobs=asked.jobs, advance=advance)
    if asked.report is not None:
        write_report(found, asked.report)
        draw_kernels(examples, platforms, Predictor.load(None), asked.report)
    told = [
        f"Split: {found.split}.",
        f"Rows: {found.rows} of {found.kernels} kernels. Labels: {found.source}.",
        *(f"  {name}: {rows}" for name, rows in found.labels.items()),
    ]
    for name, results in by_task(found).items():
        told += [f"\n{name}", columns(HEADER, table(results))]
    if found.ranking is not None:
        told.append(
            f"\nranking of our machine, one Quartz core and one V100: Kendall tau "
            f"{found.ranking.kendall_tau:.3f}, regret {found.ranking.regret:.3f} (worst "
            f"{found.ranking.worst_regret:.2f}), best one chosen {found.ranking.right:.1%}"
        )
    show(asked, found.as_dict(), "\n".join(told), file=None)
