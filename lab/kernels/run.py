"""``python -m lab programs``: every method on every task, by the same nested split, in one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.learning.metrics import Figures, row_taus
from berth.predictor.learning.programs.columns import Columns
from lab.datasets.rajaperf import LABELS, RAJAPERF
from lab.kernels.examples import Example
from lab.kernels.protocol import INNER_FOLDS, HeldOut, leave_one_kernel_out
from lab.kernels.tasks import METHODS, Method, Task, tasks

SHIPPED = METHODS[0].name


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
    """All figures, with the split and the rows that they are of."""

    split: str
    labels: dict[str, str]
    source: str
    rows: int
    kernels: int
    seed: int
    results: tuple[Result, ...]
    ranking: Ranking | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "shipped": self.shipped()}

    def shipped(self) -> dict[str, float]:
        """The shipped method's figures by name, for a bundle's manifest."""
        found = {}
        for result in self.results:
            if result.method != SHIPPED:
                continue
            for key in ("r2_log_speedup", "median_error", "mean_error", "kendall_tau", "coverage"):
                found[f"{result.task}: {key}"] = float(getattr(result.figures, key))
        if self.ranking is not None:
            found["ranking of three: kendall_tau"] = self.ranking.kendall_tau
            found["ranking of three: regret"] = self.ranking.regret
        return found


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
    results, again, held = [], [], {}
    for task in tasks(examples, platforms):
        for method in methods:
            data = task.columns(examples, published=method.published)
            out = leave_one_kernel_out(
                data,
                method.fitter,
                seed=seed,
                candidates=method.candidates,
                jobs=jobs,
                advance=advance,
            )
            results.append(_result(task.name, method, data, out, examples))
            if task.speedup_over is not None:
                name, measured = _over(task.speedup_over, task, data, examples)
                again.append(_result(name, method, measured, out, examples))
            if method.name == SHIPPED:
                held[task.name] = (task, data, out)
    kernels = len({example.kernel for example in examples})
    return Evaluation(
        split=(
            f"nested leave-one-kernel-out: each of {kernels} kernels with all its sizes is held "
            f"out; settings and intervals come from {INNER_FOLDS} folds over the other kernels"
        ),
        labels=dict(LABELS),
        source=f"{RAJAPERF.title}; {RAJAPERF.source}; {RAJAPERF.licence}",
        rows=len(examples),
        kernels=kernels,
        seed=seed,
        results=(*results, *again),
        ranking=_ranking([entry for entry in held.values() if not entry[0].reference_is_label]),
    )


def steps(
    examples: Sequence[Example],
    platforms: Mapping[str, Platform],
    methods: Sequence[Method] = METHODS,
) -> int:
    """How often ``evaluate`` calls ``advance``."""
    kernels = len({example.kernel for example in examples})
    return kernels * len(methods) * len(tasks(examples, platforms))


def _over(
    reference: Platform, task: Task, data: Columns, examples: Sequence[Example]
) -> tuple[str, Columns]:
    """The same rows as speedups over another platform's measured time, and what that is called."""
    seconds = np.array([example.seconds[reference.name] for example in examples])
    name = f"{reference.name} core -> V100, piloted on {task.reference.name}"
    return name, replace(data, log_reference=np.log(seconds))


def _result(
    task: str, method: Method, data: Columns, out: HeldOut, examples: Sequence[Example]
) -> Result:
    rows: list[dict[str, float | str]] = []
    if method.name == SHIPPED:
        rows = [
            {
                "kernel": example.kernel,
                "size": float(example.size),
                "measured_s": float(np.exp(data.log_time[i])),
                "predicted_s": float(np.exp(out.log_predicted[i])),
                "interval_factor": float(np.exp(out.log_width[i])),
            }
            for i, example in enumerate(examples)
        ]
    chosen = Counter(str(settings) for settings in out.settings)
    return Result(task, method.name, method.what, out.figures(data), dict(chosen), tuple(rows))


def _ranking(held: Sequence[tuple[Task, Columns, HeldOut]]) -> Ranking | None:
    """The vector over our own machine (known) and the held-out predictions of the others."""
    if len(held) < 2:
        return None
    own = held[0][1].log_reference
    measured: dict[str, Floats] = {"reference": own}
    predicted: dict[str, Floats] = {"reference": own}
    for task, data, out in held:
        measured[task.target.name] = data.log_time
        predicted[task.target.name] = out.log_predicted
    names = sorted(measured)
    real = np.column_stack([measured[n] for n in names])
    guess = np.column_stack([predicted[n] for n in names])
    taken = real[np.arange(len(real)), guess.argmin(axis=1)] - real.min(axis=1)
    return Ranking(
        kendall_tau=float(row_taus(real, guess).mean()),
        regret=float(np.exp(taken.mean())),
        worst_regret=float(np.exp(taken.max())),
        right=float((taken == 0).mean()),
    )
