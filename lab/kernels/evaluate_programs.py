"""Every method on every task by the same nested split: nothing is chosen, fitted or calibrated
on the kernel reported.

Outer: each kernel (all its sizes) is held out in turn. Inner: folds over the other kernels choose
the settings, and the residuals of those folds give the 90 % interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed

from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import group_quantile
from berth.predictor.learning.metrics import row_taus
from berth.predictor.learning.programs.columns import Columns
from berth.predictor.learning.programs.model import Settings
from lab.kernels.examples import Example
from lab.kernels.figures import Figures, figures
from lab.kernels.methods import METHODS, SHIPPED, Method
from lab.kernels.select import CANDIDATES, Fit, select
from lab.kernels.tasks import Task, tasks

INNER_FOLDS = 6


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Predictions of one method for rows that it had not seen."""

    log_predicted: Floats
    log_width: Floats
    settings: tuple[Settings, ...]
    """What each outer fold chose."""

    def figures(self, data: Columns) -> Figures:
        """Figures over all rows."""
        return figures(
            data.log_time, self.log_predicted, data.log_reference, data.kernels, self.log_width
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One method on one task."""

    task: str
    method: str
    what: str
    figures: Figures
    chosen: dict[str, int]
    """Settings and how many outer folds chose them."""
    rows: tuple[dict[str, float | str], ...]
    """Held-out predictions, row by row (the shipped method only)."""


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
    """All figures."""

    results: tuple[Result, ...]
    ranking: Ranking | None


def leave_one_kernel_out(
    data: Columns,
    fitter: Fit,
    *,
    seed: int,
    candidates: Sequence[Settings] = CANDIDATES,
    jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> HeldOut:
    """Held-out predictions of every row. ``advance`` is called once a kernel (progress)."""
    predicted, width = np.zeros((2, len(data)))
    chosen: list[Settings] = []
    runs = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_one)(data, name, fitter, seed, tuple(candidates))
        for name in sorted(set(data.kernels))
    )
    for held, log_predicted, log_width, settings in runs:
        predicted[held], width[held] = log_predicted, log_width
        chosen.append(settings)
        advance()
    return HeldOut(predicted, width, tuple(chosen))


def _one(
    data: Columns, name: str, fitter: Fit, seed: int, candidates: tuple[Settings, ...]
) -> tuple[list[int], Floats, Floats, Settings]:
    held = [i for i, k in enumerate(data.kernels) if k == name]
    rest = data.take([i for i, k in enumerate(data.kernels) if k != name])
    inner = select(rest, count=INNER_FOLDS, seed=seed, candidates=candidates, fitter=fitter)
    (predict,) = fitter(rest, [inner.settings], seed)
    guess = predict(data.take(held))
    quantile = group_quantile(list(inner.scores), rest.kernels)
    return held, guess.log_time, quantile * guess.difficulty, inner.settings


def evaluate(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    *,
    seed: int,
    jobs: int,
    methods: Sequence[Method] = METHODS,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Run every method on every task. ``advance`` is called once a held-out kernel."""
    results, again, own = [], [], []
    for task in tasks(examples, platforms):
        for method in methods:
            data = task.columns(examples, published=method.published)
            out = leave_one_kernel_out(
                data, method.fitter, seed=seed, candidates=method.candidates, jobs=jobs,
                advance=advance,
            )  # fmt: skip
            results.append(_result(task.name, method, data, out, examples))
            if task.speedup_over is not None:
                # The same rows as speedups over another platform's measured time.
                other = task.speedup_over.name
                name = f"{other} core -> V100, piloted on {task.reference.name}"
                seconds = np.array([example.seconds[other] for example in examples])
                over = replace(data, log_reference=np.log(seconds))
                again.append(_result(name, method, over, out, examples))
            if method.name == SHIPPED and not task.reference_is_label:
                own.append((task, data, out))
    return Evaluation((*results, *again), _ranking(own) if len(own) > 1 else None)


def steps(examples: Sequence[Example], methods: Sequence[Method] = METHODS) -> int:
    """How often ``evaluate`` calls ``advance``: over three tasks."""
    return len({example.kernel for example in examples}) * len(methods) * 3


def _result(
    task: str, method: Method, data: Columns, out: HeldOut, examples: Sequence[Example]
) -> Result:
    rows: list[dict[str, float | str]] = [
        {
            "kernel": example.kernel,
            "size": float(example.size),
            "measured_s": float(np.exp(data.log_time[i])),
            "predicted_s": float(np.exp(out.log_predicted[i])),
            "interval_factor": float(np.exp(out.log_width[i])),
        }
        for i, example in enumerate(examples)
        if method.name == SHIPPED
    ]
    chosen = Counter(str(settings) for settings in out.settings)
    return Result(task, method.name, method.what, out.figures(data), dict(chosen), tuple(rows))


def _ranking(held: Sequence[tuple[Task, Columns, HeldOut]]) -> Ranking:
    """The vector over our own machine (known) and the held-out predictions of the others."""
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
