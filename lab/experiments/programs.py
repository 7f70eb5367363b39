"""The shipped predictor of programs, nested leave-one-kernel-out, and its training."""

from __future__ import annotations

from dataclasses import asdict

from berth.plugin.cli.output.step_bar import step_bar
from berth.plugin.cli.train.training_input import command_line
from berth.predictor.families.program.predictor import Predictor
from berth.predictor.hardware import platforms as known
from lab.datasets.rajaperf import LABELS, RAJAPERF
from lab.experiments.learn import read_figures
from lab.experiments.options import Options
from lab.ground.report import Report, Section
from lab.kernels import evaluate_programs as kernels
from lab.kernels.evaluate_programs import INNER_FOLDS, Evaluation, Result
from lab.kernels.examples import read_examples
from lab.kernels.explained_kernels import draw_kernels
from lab.kernels.methods import SHIPPED
from lab.kernels.program_bundle import train as train_bundle

_SHOWN = (
    ("R2 log speedup", "r2_log_speedup", "{:.2f}"),
    ("R2 log time", "r2_log_time", "{:.2f}"),
    ("median error", "median_error", "{:.1%}"),
    ("mean error", "mean_error", "{:.0%}"),
    ("Kendall tau", "kendall_tau", "{:.2f}"),
    ("regret", "regret", "{:.3f}"),
    ("coverage", "coverage", "{:.1%}"),
    ("interval x", "interval_factor", "{:.2f}"),
    ("Winkler", "winkler", "{:.2f}"),
)
_ON_CARD = ("r2_log_speedup", "median_error", "mean_error", "kendall_tau", "coverage")
_WORST = 15


def train(options: Options) -> str:
    """The bundle from kernel profiles and published times."""
    examples = read_examples(*options.profiles[:1])
    figures = read_figures(options.figures)
    with step_bar("training", len(LABELS) + 1) as advance:
        manifest = train_bundle(
            examples, known.load(options.platforms), options.bundle, seed=options.seed,
            command=command_line(), figures=figures, advance=advance,
        )  # fmt: skip
    return f"{manifest.id}: {manifest.training.rows} profiles"


def evaluate(options: Options) -> Report:
    """Every method on every task; with ``report`` also pictures of why."""
    examples, platforms = read_examples(*options.profiles[:1]), known.load(options.platforms)
    with step_bar("evaluating", kernels.steps(examples)) as advance:
        found = kernels.evaluate(
            examples, platforms, seed=options.seed, jobs=options.jobs, advance=advance
        )
    if options.report is not None:
        draw_kernels(examples, platforms, Predictor.load(None), options.report)
    return report_of(found, len(examples), len({e.kernel for e in examples}), options.seed)


def report_of(found: Evaluation, rows: int, kernels: int, seed: int) -> Report:
    """A table for each task with the worst rows of the shipped method, and the ranking."""
    split = (
        f"nested leave-one-kernel-out: each of {kernels} kernels with all its sizes is held out; "
        f"settings and intervals come from {INNER_FOLDS} folds over the other kernels"
    )
    source = f"{RAJAPERF.title}; {RAJAPERF.source}; {RAJAPERF.licence}"
    sections = []
    for task in dict.fromkeys(result.task for result in found.results):
        results = [result for result in found.results if result.task == task]
        header = ("method", *(title for title, _, _ in _SHOWN))
        cells = [(one.method, *_cells(one)) for one in results]
        sections.append(Section(task, header, cells))
        for one in results:
            if one.rows:
                sections.append(_worst(one))
    shipped = {
        f"{result.task}: {key}": float(getattr(result.figures, key))
        for result in found.results
        if result.method == SHIPPED
        for key in _ON_CARD
    }
    after: tuple[str, ...] = ()
    if (ranking := found.ranking) is not None:
        shipped["ranking of three: kendall_tau"] = ranking.kendall_tau
        shipped["ranking of three: regret"] = ranking.regret
        after = (
            f"Choosing among our machine, one Quartz core and one V100: Kendall tau "
            f"{ranking.kendall_tau:.3f}, regret {ranking.regret:.3f} (worst "
            f"{ranking.worst_regret:.2f}), best one chosen {ranking.right:.1%}.",
        )
    return Report(
        "How good the predictions of programs are",
        (
            f"Split: {split}.",
            f"Rows: {rows} of {kernels} kernels; seed {seed}. Labels: {source}.",
            *(f"  {name}: {which}" for name, which in LABELS.items()),
            "Errors are of the target's time; R2 of the logarithm; tau over pairs of different "
            "kernels; regret: geometric mean of the time where it was sent over the best; coverage "
            "and Winkler score (log time) of the nominal 90 % interval, whose upper end is the "
            "middle times `interval x` (median).",
        ),
        tuple(sections),
        {
            "split": split, "labels": LABELS, "source": source, "rows": rows, "kernels": kernels,
            "seed": seed, **asdict(found),
        },
        shipped,
        after,
    )  # fmt: skip


def _cells(result: Result) -> list[str]:
    return [form.format(getattr(result.figures, key)) for _, key, form in _SHOWN]


def _worst(result: Result) -> Section:
    off = {
        i: abs(float(row["predicted_s"]) / float(row["measured_s"]) - 1)
        for i, row in enumerate(result.rows)
    }
    worst = [result.rows[i] for i in sorted(off, key=lambda i: -off[i])[:_WORST]]
    return Section(
        f"{result.task}: worst rows of the shipped method",
        ("kernel", "size", "measured", "predicted"),
        [
            (str(r["kernel"]), f"{float(r['size']):.0f}", f"{float(r['measured_s']):.3g} s",
             f"{float(r['predicted_s']):.3g} s")
            for r in worst
        ],
    )  # fmt: skip
