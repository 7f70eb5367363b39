"""The shipped predictor: a cost model's rates by setting, and two learners of its residual.

``log seconds = log cost model + mean of (gradient-boosted trees, a Gaussian process)`` over
``costs.STEP_FEATURES``. Rates: non-negative least squares of relative errors. The process has fixed
lengths (a Matern kernel over standardised features), set by hand after three kernels were tried on
timm's rows: its figures there are a little optimistic; our CPU runs were not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xgboost
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls

from berth.predictor.families.training_step.step_costs import cost_seconds, step_features, terms
from lab.ground.onnx_export import OnnxGraph
from lab.ground.table import Floats, Strings
from lab.steps.step_rows import Steps

TREES = {"n_estimators": 400, "max_depth": 5, "learning_rate": 0.05, "subsample": 0.7,
         "colsample_bytree": 0.4, "n_jobs": 1}  # fmt: skip
LENGTH, VARIANCE, NOISE = 12.0, 0.03, 0.001
"""Of the process: in standard deviations of the features; of log seconds, squared."""


def fit_rates(table: Floats, seconds: Floats) -> Floats:
    """[len(TERMS)] rates >= 0 of relative errors; a term that is nowhere has rate 0."""
    parts = table / seconds[:, None]
    scale = np.maximum(parts.max(axis=0, initial=0), 1e-30)
    found, _ = nnls(parts / scale, np.ones(len(table)))
    return np.asarray(found / scale)


class Process:
    """A Gaussian process over standardised rows; Matern 3/2."""

    def __init__(self, rows: Floats, labels: Floats) -> None:
        self.centre, deviation = rows.mean(axis=0), rows.std(axis=0)
        self.scale = 1 / np.where(deviation > 1e-6, deviation, np.inf) / LENGTH
        self.rows = (rows - self.centre) * self.scale
        own = self._kernel(self.rows) + NOISE * np.eye(len(rows))
        self.weights: Floats = cho_solve(cho_factor(own), labels)

    def _kernel(self, given: Floats) -> Floats:
        square = (given**2).sum(1)[:, None] + (self.rows**2).sum(1)[None] - 2 * given @ self.rows.T
        apart = np.sqrt(3 * np.maximum(square, 0))
        found: Floats = VARIANCE * (1 + apart) * np.exp(-apart)
        return found

    def __call__(self, rows: Floats) -> Floats:
        """Return [rows]"""
        found: Floats = self._kernel((rows - self.centre) * self.scale) @ self.weights
        return found

    def onnx(self) -> bytes:
        """Export in double precision: ``features`` [rows, any] to ``rest`` [rows, 1]."""
        graph, theirs = OnnxGraph(), self.rows
        mine = graph.add("Mul", graph.add("Sub", "features", self.centre), self.scale)
        squares = graph.add("ReduceSumSquare", mine, axes=[1], keepdims=1)
        cross = graph.add("MatMul", mine, -2 * theirs.T)
        square = graph.add("Add", graph.add("Add", squares, cross), (theirs**2).sum(axis=1)[None])
        zero = graph.constant(np.array([[0.0]]))
        positive = graph.add("Mul", graph.add("Max", square, zero), np.array([[3.0]]))
        apart = graph.add("Sqrt", positive)
        decay = graph.add("Exp", graph.add("Neg", apart))
        kernel = graph.add("Mul", graph.add("Add", apart, np.array([[1.0]])), decay)
        graph.add("MatMul", kernel, VARIANCE * self.weights[:, None], to="rest")
        return graph.model("process", {"features": (len(self.centre), "float64")}, ("rest", 1))


@dataclass(frozen=True, slots=True)
class Learnt:
    """Rates by setting and the two learners; None: the cost model alone."""

    rates: dict[str, Floats]
    trees: xgboost.XGBRegressor | None
    process: Process | None

    def costs(self, steps: Steps) -> Floats:
        """Return [rows] log seconds of a step, by rates alone."""
        table = terms(steps.features, steps.batch)
        return np.log(cost_seconds(table, self._rates(steps.setting)))

    def predict(self, steps: Steps) -> Floats:
        """Return [rows] log seconds of a step."""
        found = self.costs(steps)
        learners = [one for one in (self.trees and self.trees.predict, self.process) if one]
        if learners:
            rows = self.features(steps)
            found = found + np.mean([np.asarray(one(rows), float) for one in learners], axis=0)
        return found

    def features(self, steps: Steps) -> Floats:
        """Return [rows, len(STEP_FEATURES)]"""
        nhwc = (steps.runs.layout == "nhwc").astype(float)
        return step_features(steps.features, steps.batch, nhwc, self._rates(steps.setting))

    def _rates(self, setting: Strings) -> Floats:
        return np.array([self.rates[name] for name in setting.tolist()])


def rates_of(steps: Steps) -> dict[str, Floats]:
    """Rates of every setting in these rows."""
    table = terms(steps.features, steps.batch)
    found = {}
    for name in sorted(set(steps.setting.tolist())):
        own = steps.setting == name
        found[name] = fit_rates(table[own], steps.labels[own, 0])
    return found


def fit(steps: Steps, *, seed: int, learners: Sequence[str] = ("trees", "process")) -> Learnt:
    """Rates and learners of these rows. ``learners`` () is the cost model alone."""
    costs = Learnt(rates_of(steps), None, None)
    if not learners:
        return costs
    rows, rest = costs.features(steps), np.log(steps.labels[:, 0]) - costs.costs(steps)
    trees = process = None
    if "trees" in learners:
        trees = xgboost.XGBRegressor(**TREES, random_state=seed).fit(rows, rest)
    if "process" in learners:
        process = Process(rows, rest)
    return Learnt(costs.rates, trees, process)
