"""Graph networks against trees on the same folds: how right, how long to train, how long to ask.

Five folds of unseen models and of unseen families, and the first fold of random rows: GraphSAGE
with the thesis's readout (mean of the nodes) and with ours (sum of the nodes' times); XGBoost on
graph features, roofs and settings, which learns the ratio to the roofline; the method that
``berth predict`` serves; then the mean (of logarithms) of each of these two and the summing
network. Hyper-parameters were set on inner folds of the first fold's training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xgboost

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.graph.latency.features import ROOF_FEATURES
from lab.experiments.experiment import Options
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures
from lab.ground.report import Report, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.fit_latency import learnt
from lab.latency.samples import sample_of, settings
from lab.latency.timm_devices import roof_of_device
from lab.latency.timm_runs import FAMILY, MODEL, RANDOM, Runs, roof_rows, scalars
from lab.published.graph_networks.fit_network import Training, answers, fit
from lab.published.graph_networks.latency_network import Readout, Shape
from lab.published.graph_networks.timm_examples import examples

TREES, SERVED, SUMMED = "trees (XGBoost)", "served: sum + process", "sage, sum"
TRAINING = Training()
SHOWN = ("rows", "mean_error", "median_error", "within_10")
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Part:
    """The first folds of a split with the methods that are compared on them."""

    split: Split
    folds: int
    families: tuple[Family[Runs], ...]

    @property
    def name(self) -> str:
        """Return the split, with the number of folds where it is not all."""
        every = self.folds == self.split.count
        return self.split.name if every else f"{self.split.name}, fold 1 of {self.split.count}"


def plan(training: Training) -> tuple[Part, ...]:
    """Return the splits and the methods that are compared on them."""

    def network(name: str, readout: Readout) -> Family[Runs]:
        shape = Shape(readout=readout)
        return Family(name, partial(by_network, shape=shape, training=training))

    methods = (
        network("sage, mean", Readout.MEAN), network(SUMMED, Readout.SUM),
        Family(TREES, by_trees), Family(SERVED, by_served),
    )  # fmt: skip
    return Part(MODEL, 5, methods), Part(FAMILY, 5, methods), Part(RANDOM, 1, methods)


def by_network(train: Runs, test: Runs, seed: int, *, shape: Shape, training: Training) -> Floats:
    """Return [test] log seconds by a network that learnt the training rows."""
    network, _ = fit(examples(train), shape, training, seed=seed)
    return answers(network, examples(test))[:, 0]


def by_trees(train: Runs, test: Runs, seed: int) -> Floats:
    """Return [test] log seconds; the ratio to the roofline is learnt."""
    model = trees_of(seed).fit(tree_features(train), np.log(train.seconds) - roofline(train))
    return np.asarray(model.predict(tree_features(test)), np.float64) + roofline(test)


def by_served(train: Runs, test: Runs, seed: int) -> Floats:
    """Return [test] log seconds; where a setting has too few rows, the roofline times one
    factor."""
    known = timm_runs.graphs()
    samples = [
        sample_of(
            rows, [(known.work[n], known.features[n]) for n in rows.graph.tolist()],
            settings(rows), rows.architecture,
        ) for rows in (train, test)
    ]  # fmt: skip
    found = learnt(samples[0], samples[1], seed)[:, 0]
    plain = roofline(test) + np.median(np.log(train.seconds) - roofline(train))
    return np.where(np.isnan(found), plain, found)


def trees_of(seed: int) -> xgboost.XGBRegressor:
    """Return untrained trees on one thread."""
    return xgboost.XGBRegressor(
        n_estimators=500, learning_rate=0.05, max_depth=6, subsample=0.7, colsample_bytree=0.5,
        objective="reg:absoluteerror", n_jobs=1, random_state=seed,
    )  # fmt: skip


def _roofs(rows: Runs) -> Floats:
    work = timm_runs.graphs().work
    return roof_rows(rows, [work[n] for n in rows.graph.tolist()])


def roofline(rows: Runs) -> Floats:
    """Return [rows] log seconds of an image: operators one after the other at full roofs, and their
    launches."""
    roofs = _roofs(rows)
    launch_s = np.array([roof_of_device(device).launch_s for device in rows.device.tolist()])
    launches = roofs[:, ROOF_FEATURES.index("launches")] * launch_s / rows.batch
    return np.asarray(np.log(roofs[:, ROOF_FEATURES.index("roof_s")] + launches))


def tree_features(rows: Runs) -> Floats:
    """Return [rows, ...] settings, published totals, graph features and roofs, as logarithms."""
    graph = np.log1p(timm_runs.graphs().features[rows.graph])
    return np.column_stack((scalars(rows), graph, np.log(_roofs(rows) + _TINY), roofline(rows)))


def steps(parts: Sequence[Part]) -> int:
    """Return how often ``evaluate`` calls ``advance``."""
    return sum(part.folds * len(part.families) for part in parts)


def networks_report(
    rows: Runs,
    parts: Sequence[Part],
    *,
    seed: int = 0,
    advance: Callable[..., None] = lambda *_: None,
) -> Report:
    """Return the parts of the plan on rows that have a graph. Raises UsageError: too few groups."""
    rows = rows[rows.has_graph]
    results = [one for part in parts for one in _of_part(rows, part, seed, advance)]
    models, families = (len(set(names.tolist())) for names in (rows.model, rows.family))
    return Report(
        "Graph networks of model latency beside trees and what is served",
        (f"{len(rows)} measurements of {models} models of {families} families that have a graph.",),
        tuple(
            results_section(
                part.name, [one for one in results if one.split == part.name], SHOWN,
                seconds="training s",
            ) for part in parts
        ),
        {"rows": len(rows), "models": models, "families": families, "results": results},
    )  # fmt: skip


def _of_part(rows: Runs, part: Part, seed: int, advance: Callable[..., None]) -> list[Result]:
    folds = part.split.folds(rows, seed)[: part.folds]
    held = {
        one.name: held_out(one, rows, folds, seed=seed, advance=advance) for one in part.families
    }
    found = {name: (one.log_predicted, one.seconds) for name, one in held.items()}
    for other in (TREES, SERVED):
        if {other, SUMMED} <= found.keys():
            (first, first_s), (second, second_s) = found[other], found[SUMMED]
            both = (first + second) / 2, first_s + second_s
            found[f"mean of {other} and {SUMMED}"] = both
    tests = next(iter(held.values())).rows
    measured, models = np.log(rows.seconds[tests]), rows.model[tests]
    return [
        Result(part.name, name, figures(measured, said, models), seconds)
        for name, (said, seconds) in found.items()
    ]


def evaluate(options: Options) -> Report:
    """Report both readouts, trees and the served method on the same folds."""
    parts = plan(TRAINING)
    with step_bar("evaluating", steps(parts)) as advance:
        return networks_report(timm_runs.runs(), parts, seed=options.seed, advance=advance)
