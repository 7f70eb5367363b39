"""Every method on every task by the same nested split: nothing is chosen, fitted or calibrated
on the kernel reported.

Outer: each kernel (all its sizes) is held out in turn. Inner: folds over the other kernels choose
the settings, and the residuals of those folds give the 90 % interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from joblib import Parallel, delayed

from berth.pilot.platform import Platform
from berth.plugin.cli.train.training_input import command_line
from berth.plugin.report.progress_bars import step_bar
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.hardware import platforms as known
from berth.predictor.learning.programs.columns import LabelRows
from lab.datasets.rajaperf import LABELS, RAJAPERF
from lab.experiments.experiment import Options, read_figures
from lab.ground.evaluate import Result
from lab.ground.figures import Figures, figures
from lab.ground.report import Report, results_section
from lab.kernels.examples import Example, read_examples
from lab.kernels.methods import METHODS, SHIPPED, Method
from lab.kernels.program_bundle import train as train_bundle
from lab.kernels.residual_model import Settings
from lab.kernels.select import CANDIDATES, Fit, select
from lab.kernels.tasks import Task, tasks
from lab.relative.figures import row_taus

INNER_FOLDS = 6


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of one method for rows that it had not seen."""

    log_predicted: Floats
    log_width: Floats

    def figures(self, data: LabelRows) -> Figures:
        """Return figures over all rows; R2 and tau are of the speedup over the reference."""
        return figures(
            data.log_time, self.log_predicted, np.array(data.kernels), log_width=self.log_width,
            log_base=-data.log_reference,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ranking:
    """Choosing among our machine, one Quartz core and one V100, by the shipped method."""

    kendall_tau: float
    regret: float
    worst_regret: float
    right: float
    """Share of rows where the predicted best is the best."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results of all methods on all tasks, and the ranking of platforms by the shipped method."""

    results: tuple[Result, ...]
    ranking: Ranking | None


def leave_one_kernel_out(
    data: LabelRows,
    fitter: Fit,
    *,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Return held-out predictions of every row. ``advance`` is called after each kernel."""
    predicted, width = np.zeros((2, len(data)))
    runs = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_one)(data, name, fitter, seed, tuple(candidates))
        for name in sorted(set(data.kernels))
    )
    for held, log_predicted, log_width in runs:
        predicted[held], width[held] = log_predicted, log_width
        advance()
    return HeldOut(predicted, width)


def _one(
    data: LabelRows, name: str, fitter: Fit, seed: int, candidates: tuple[Settings, ...]
) -> tuple[list[int], Floats, Floats]:
    held = [i for i, k in enumerate(data.kernels) if k == name]
    rest = data.take([i for i, k in enumerate(data.kernels) if k != name])
    inner = select(rest, count=INNER_FOLDS, seed=seed, candidates=candidates, fitter=fitter)
    (predict,) = fitter(rest, [inner.settings], seed)
    guess = predict(data.take(held))
    quantile = group_quantile(list(inner.scores), rest.kernels)
    return held, guess.log_time, quantile * guess.difficulty


def evaluate_methods(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    *,
    seed: int,
    jobs: int,
    methods: Sequence[Method] = METHODS,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Run every method on every task. ``advance`` is called after each held-out kernel."""
    results, own = [], []
    for task in tasks(examples, platforms):
        for method in methods:
            data = task.columns(examples)
            out = leave_one_kernel_out(
                data, method.fitter, seed=seed, candidates=method.candidates, jobs=jobs,
                advance=advance,
            )  # fmt: skip
            results.append(Result(task.name, method.name, out.figures(data)))
            if method.name == SHIPPED and not task.reference_is_label:
                own.append((task, data, out))
    return Evaluation(tuple(results), _ranking(own) if len(own) > 1 else None)


def steps(examples: Sequence[Example], methods: Sequence[Method] = METHODS) -> int:
    """Return how often ``evaluate`` calls ``advance``: over three tasks."""
    return len({example.kernel for example in examples}) * len(methods) * 3


def _ranking(held: Sequence[tuple[Task, LabelRows, HeldOut]]) -> Ranking:
    """Return the vector over our own machine (known) and the held-out predictions of the others."""
    own = held[0][1].log_reference
    real = np.column_stack([own, *(data.log_time for _, data, _ in held)])
    guess = np.column_stack([own, *(out.log_predicted for *_, out in held)])
    taken = real[np.arange(len(real)), guess.argmin(axis=1)] - real.min(axis=1)
    return Ranking(
        kendall_tau=float(row_taus(real, guess).mean()),
        regret=float(np.exp(taken.mean())),
        worst_regret=float(np.exp(taken.max())),
        right=float((taken == 0).mean()),
    )


_SHOWN = ("median_error", "mean_error", "r2_log", "kendall_tau", "coverage", "interval_factor")
_ON_CARD = ("r2_log", "median_error", "mean_error", "kendall_tau", "coverage")


def train(options: Options) -> str:
    """Write the bundle, fitted on kernel profiles and published times; return a summary."""
    examples = read_examples(*options.profiles[:1])
    figures = read_figures(options.figures)
    with step_bar("training", len(LABELS) + 1) as advance:
        manifest = train_bundle(
            examples, known.load(options.platforms), options.bundle, seed=options.seed,
            command=command_line(), figures=figures, advance=advance,
        )  # fmt: skip
    return f"{manifest.id}: {manifest.training.rows} profiles"


def evaluate(options: Options) -> Report:
    """Report every method on every task."""
    examples, platforms = read_examples(*options.profiles[:1]), known.load(options.platforms)
    with step_bar("evaluating", steps(examples)) as advance:
        found = evaluate_methods(
            examples, platforms, seed=options.seed, jobs=options.jobs, advance=advance
        )
    return report_of(found, len(examples), len({e.kernel for e in examples}), options.seed)


def report_of(found: Evaluation, rows: int, kernels: int, seed: int) -> Report:
    """Return a table for each task, and the ranking."""
    split = (
        f"nested leave-one-kernel-out: each of {kernels} kernels with all its sizes is held out; "
        f"settings and intervals come from {INNER_FOLDS} folds over the other kernels"
    )
    source = f"{RAJAPERF.title}; {RAJAPERF.source}; {RAJAPERF.licence}"
    sections = tuple(
        results_section(task, [one for one in found.results if one.split == task], _SHOWN)
        for task in dict.fromkeys(one.split for one in found.results)
    )
    shipped = {
        f"{result.split}: {key}": float(getattr(result.figures, key))
        for result in found.results
        if result.family == SHIPPED
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
            "Errors are of the target's time; R2 and tau (over pairs of different kernels) of the "
            "speedup; coverage of the nominal 90 % interval, whose upper end is the middle times "
            "`interval x` (median).",
        ),
        sections,
        {
            "split": split, "labels": LABELS, "source": source, "rows": rows, "kernels": kernels,
            "seed": seed, **asdict(found),
        },
        shipped,
        after,
    )  # fmt: skip
