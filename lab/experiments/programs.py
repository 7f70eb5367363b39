"""The shipped predictor of programs."""

from __future__ import annotations

from berth.plugin.cli.columns import columns
from berth.plugin.cli.step_bar import step_bar
from berth.predictor.hardware import platforms as known
from lab.experiments.learn import command_line, read_figures
from lab.experiments.options import Options
from lab.experiments.shown import show
from lab.kernels.examples import read_examples


def train(options: Options) -> str:
    """The bundle from kernel profiles and published times."""
    from lab.datasets.rajaperf import LABELS  # noqa: PLC0415 - needs the extra
    from lab.kernels.train import train as run  # noqa: PLC0415

    examples = read_examples(options.profiles[0] if options.profiles else None)
    shown = read_figures(options.figures)
    with step_bar("training", len(LABELS) + 1) as advance:
        manifest = run(
            examples,
            known.load(options.platforms),
            options.bundle,
            seed=options.seed,
            command=command_line(),
            figures=shown,
            advance=advance,
        )
    return f"{manifest.id}: {manifest.training.rows} profiles"


def evaluate(options: Options) -> None:
    """Nested leave-one-kernel-out."""
    from berth.predictor.families.program.predictor import Predictor  # noqa: PLC0415
    from lab.kernels import run  # noqa: PLC0415 - needs the extra
    from lab.kernels.explained_kernels import draw_kernels  # noqa: PLC0415
    from lab.kernels.report import (  # noqa: PLC0415
        HEADER,
        by_task,
        table,
        write_report,
    )

    examples = read_examples(options.profiles[0] if options.profiles else None)
    platforms = known.load(options.platforms)
    with step_bar("evaluating", run.steps(examples, platforms)) as advance:
        found = run.evaluate(
            examples, platforms, seed=options.seed, jobs=options.jobs, advance=advance
        )
    if options.report is not None:
        write_report(found, options.report)
        draw_kernels(examples, platforms, Predictor.load(None), options.report)
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
    show(options, found.as_dict(), "\n".join(told), file=None)
