"""Heads of a graph network on our own runs (one CPU core), unseen models: latency and memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from berth.predictor.learning.folds import folds
from lab.ground.figures import Figures, figures
from lab.published.graph_networks.fit import Training, fit
from lab.published.graph_networks.measured import inference_runs, measured
from lab.published.graph_networks.network import TARGETS, Readout, Shape

HEADER = ("target", "rows", "MAPE", "median", "Acc(10 %)")
FOLDS = 5
TRAINING = Training(epochs=100, graphs=4)
"""Steps are few where graphs are."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of one target over all folds."""

    target: str
    figures: Figures

    def cells(self) -> tuple[str, ...]:
        """Of the table, as ``HEADER`` says."""
        f = self.figures
        return (
            self.target, str(f.rows), f"{f.mean_error:.1%}", f"{f.median_error:.1%}",
            f"{f.within_10:.1%}",
        )  # fmt: skip


def evaluate_measured(
    *, seed: int = 0, advance: Callable[[], None] = lambda: None
) -> tuple[Result, ...]:
    """Each target that was measured; ``advance`` is called once a fold (``FOLDS``)."""
    own, names = measured(inference_runs())
    _, models = np.unique(names, return_inverse=True)
    said = np.empty_like(own.labels)
    for fold in folds(names.tolist(), FOLDS, seed):
        test = np.array(fold)
        learnt = own.only(np.setdiff1d(np.arange(len(names)), test))
        made = fit(learnt, Shape(readout=Readout.SUM), TRAINING, seed=seed)
        said[test] = made.predict(own.only(test))
        advance()
    known = np.isfinite(own.labels)
    return tuple(
        Result(target, figures(
            own.labels[known[:, n], n], said[known[:, n], n], models[known[:, n]]
        ))
        for n, target in enumerate(TARGETS) if known[:, n].any()
    )  # fmt: skip
