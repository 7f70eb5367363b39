"""Graph networks against trees on the same folds: how right, how long to train, how long to ask.

All five folds of unseen models and of unseen families: GraphSAGE with the thesis's readout (mean)
and with ours (sum of the nodes' times); XGBoost on graph features, roofs and settings, which
learns the ratio to the roofline; the method that ``berth predict`` serves (operators' sum and
process, its knobs chosen on inner folds); then the mean of each of these two and the summing
network (in logarithms, nothing is fitted). First fold of unseen models: all kinds of network of
the thesis's Table 4.4 beside them, the ratio to the roofline as the network's target, and no edges
with our readout. First fold of random rows likewise the few. Hyper-parameters were set on inner
folds of the first fold's training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xgboost

from berth.predictor.families.program.ceilings import Floats
from lab.ground.figures import Figures, figures
from lab.ground.splits import Split
from lab.ground.table import Places
from lab.latency.fit_latency import learnt
from lab.latency.timm_runs import FAMILY, MODEL, RANDOM, Runs
from lab.published.graph_networks.encoder import EncoderSettings
from lab.published.graph_networks.examples import examples
from lab.published.graph_networks.fit import Training, fit
from lab.published.graph_networks.layers import Kind
from lab.published.graph_networks.network import Readout, Shape
from lab.published.graph_networks.priors import (
    roofline_seconds,
    sample_of,
    tree_features,
)

HEADER = ("split", "method", "rows", "MAPE", "median", "Acc(10 %)", "training s", "folds")
TREES, SERVED, SUMMED = "trees (XGBoost)", "served: sum + process", "sage, sum"
TRAINING = Training()
FOLDS = 5
ADVANCES = 10
"""Epochs in a step of the progress bar."""


@dataclass(frozen=True, slots=True)
class Method:
    """One line of the plan."""

    name: str
    shape: Shape | None
    """None: ``TREES`` or ``SERVED``, by name."""
    ratio: bool = False
    """To the roofline."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some folds of a split with the methods that are compared on them."""

    split: Split
    folds: int
    methods: tuple[Method, ...]

    @property
    def name(self) -> str:
        """With the number of folds where it is not all."""
        return self.split.name if self.folds == FOLDS else f"{self.split.name}, fold 1 of {FOLDS}"


def plan() -> tuple[Part, ...]:
    """What is compared on what."""
    kinds = [Method(f"{kind.value}, mean", Shape(EncoderSettings(kind=kind))) for kind in Kind]
    summed = [
        Method(f"{kind.value}, sum", Shape(EncoderSettings(kind=kind), readout=Readout.SUM))
        for kind in (Kind.SAGE, Kind.MLP)
    ]
    ratio = Method("sage, mean, ratio to roofline", Shape(), ratio=True)
    few = (kinds[0], summed[0], Method(TREES, None, ratio=True), Method(SERVED, None))
    return (
        Part(MODEL, FOLDS, few), Part(FAMILY, FOLDS, few),
        Part(MODEL, 1, (*few, *kinds[1:], ratio, summed[1])), Part(RANDOM, 1, few),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """A method on all test rows of a split's folds."""

    split: str
    method: str
    figures: Figures
    training_s: float
    """Processor time of one fold on one thread, the mean."""
    folds: int

    def cells(self) -> tuple[str, ...]:
        """Of the table, as ``HEADER`` says."""
        f = self.figures
        return (
            self.split, self.method, str(f.rows), f"{f.mean_error:.1%}", f"{f.median_error:.1%}",
            f"{f.within_10:.1%}", f"{self.training_s:.0f}", str(self.folds),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The table."""

    rows: int
    models: int
    families: int
    results: tuple[Result, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def steps(training: Training | None = None, parts: Sequence[Part] | None = None) -> int:
    """How often ``evaluate`` calls ``advance``."""
    each = (training or TRAINING).epochs // ADVANCES
    return sum(
        part.folds * (each if method.shape else 1)
        for part in parts or plan()
        for method in part.methods
    )


def evaluate(
    rows: Runs,
    *,
    seed: int = 0,
    training: Training | None = None,
    parts: Sequence[Part] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Evaluation:
    """All methods of the plan on rows that have a graph. Raises UsageError: too few groups."""
    rows = rows[rows.has_graph]
    results: list[Result] = []
    for part in parts or plan():
        results.extend(_of_part(rows, part, seed, training or TRAINING, advance))
    return Evaluation(
        len(rows), len(set(rows.model.tolist())), len(set(rows.family.tolist())), tuple(results)
    )


def _of_part(
    rows: Runs, part: Part, seed: int, training: Training, advance: Callable[[], None]
) -> Iterator[Result]:
    chosen = part.split.folds(rows, seed)[: part.folds]
    tests = np.concatenate([one.test for one in chosen])
    _, names = np.unique(rows.model, return_inverse=True)
    said: dict[str, Floats] = {}
    spent_s: dict[str, float] = {}

    def result(method: str) -> Result:
        found = figures(np.log(rows.seconds[tests]), said[method], names[tests])
        return Result(part.name, method, found, spent_s[method] / len(chosen), len(chosen))

    for method in part.methods:
        start = time.process_time()
        said[method.name] = np.concatenate([
            predict(method, rows, one.train, one.test, seed, training, advance) for one in chosen
        ])  # fmt: skip
        spent_s[method.name] = time.process_time() - start
        yield result(method.name)
    for other in (TREES, SERVED):
        if other in said and SUMMED in said:
            both = f"mean of {other} and {SUMMED}"
            said[both] = (said[other] + said[SUMMED]) / 2
            spent_s[both] = spent_s[other] + spent_s[SUMMED]
            yield result(both)


def predict(  # noqa: PLR0917 - the loop above reads better so
    method: Method,
    rows: Runs,
    train: Places,
    test: Places,
    seed: int,
    training: Training,
    advance: Callable[[], None],
) -> Floats:
    """[test] logarithms of seconds, learnt from ``train``."""
    prior = roofline_seconds(rows) if method.ratio else np.ones(len(rows))
    if method.name == SERVED:
        advance()
        return _served(rows, train, test, seed)
    if method.shape is None:
        table = tree_features(rows)
        trees = trees_of(seed).fit(table[train], np.log(rows.seconds / prior)[train])
        advance()
        found: Floats = np.asarray(trees.predict(table[test]), np.float64) + np.log(prior[test])
        return found
    ready = examples(rows, prior)
    done = iter(range(1, training.epochs + 1))

    def each_epoch() -> None:
        if next(done) % ADVANCES == 0:
            advance()

    made = fit(ready.only(train), method.shape, training, seed=seed, advance=each_epoch)
    unlabelled = replace(ready.only(test), labels=np.full((len(test), 0), np.nan))
    said: Floats = made.predict(unlabelled)[:, 0] + np.log(prior[test])
    return said


def _served(rows: Runs, train: Places, test: Places, seed: int) -> Floats:
    """[test] logarithms of seconds; where a setting has too few rows, the roofline's ratio."""
    sample = sample_of(rows)
    told = learnt(sample[train], sample[test], seed)[:, 0]
    prior = np.log(roofline_seconds(rows))
    plain = prior[test] + np.median(sample.log_seconds[train] - prior[train])
    return np.where(np.isnan(told), plain, told)


def trees_of(seed: int) -> xgboost.XGBRegressor:
    """On one thread."""
    return xgboost.XGBRegressor(
        n_estimators=500, learning_rate=0.05, max_depth=6, subsample=0.7, colsample_bytree=0.5,
        objective="reg:absoluteerror", n_jobs=1, random_state=seed,
    )  # fmt: skip
