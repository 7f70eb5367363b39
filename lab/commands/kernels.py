"""``berth train|evaluate --task kernels``: the shipped predictor of programs."""

from __future__ import annotations

import click

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.plugin.cli.training_input import command_line, require_training
from berth.predictor.hardware import platforms as known
from lab.commands.asked import Asked
from lab.commands.inputs import read_examples, read_figures
from lab.commands.shown import show


def train(asked: Asked) -> None:
    """The bundle from kernel profiles and published times."""
    require_training("training")
    from lab.datasets.rajaperf import LABELS  # noqa: PLC0415 - needs the extra
    from lab.kernels.train import train as run  # noqa: PLC0415

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
    from berth.predictor.families.program.predictor import Predictor  # noqa: PLC0415
    from lab.kernels import run  # noqa: PLC0415 - needs the extra
    from lab.kernels.explained_kernels import draw_kernels  # noqa: PLC0415
    from lab.kernels.report import (  # noqa: PLC0415
        HEADER,
        by_task,
        table,
        write_report,
    )

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
