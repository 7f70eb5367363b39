"""Graph networks against trees on the same folds: how right, how long to train, how long to ask.

All five folds of unseen models and of unseen families: GraphSAGE with the thesis's readout (mean)
and with ours (sum of the nodes' times); XGBoost on graph features, roofs and settings, which
learns the ratio to the roofline; the method that ``berth predict`` serves (operators' sum and
process, its knobs chosen on inner folds); then the mean of each of these two and the summing
network (in logarithms, nothing is fitted). First fold of unseen models: all kinds of network of
the thesis's Table 4.4 beside them, the ratio to the roofline as the network's target, and no edges
with our readout. First fold of random rows likewise the few. Then the heads of latency and memory
on our own runs (one CPU core), and what an answer costs. Hyper-parameters were set on inner folds
of the first fold's training rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import xgboost

from berth.plugin.cli.output.step_bar import step_bar
from berth.predictor.families.graph.latency.features import ROOF_FEATURES, graph_features, work_of
from berth.predictor.graphs.graph import ModelGraph
from lab.experiments.experiment import Options
from lab.ground.evaluate import Family, Result, held_out
from lab.ground.figures import figures
from lab.ground.report import Report, Section, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.fit_latency import learnt
from lab.latency.samples import sample_of, settings
from lab.latency.timm_devices import roof_of_device
from lab.latency.timm_runs import FAMILY, MODEL, RANDOM, Runs, roof_rows, scalars
from lab.published.graph_networks.fit_network import Training, answers, fit
from lab.published.graph_networks.latency_network import (
    TARGETS,
    EncoderSettings,
    Kind,
    Readout,
    Shape,
)
from lab.published.graph_networks.node_features import (
    CompactGraph,
    Floats32,
    compact,
    static_features,
)
from lab.published.graph_networks.timm_examples import examples, own_labels

SHAPE = Shape(readout=Readout.SUM)
TREES, SERVED, SUMMED = "trees (XGBoost)", "served: sum + process", "sage, sum"
TRAINING, OWN_TRAINING = Training(), Training(epochs=100, graphs=4)
"""Of our own runs: steps are few where graphs are."""
SHOWN = ("rows", "mean_error", "median_error", "within_10")
SETTINGS = (1, 25)
_REPEATS = 5
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
    """Return what is compared on what."""

    def network(name: str, kind: Kind = Kind.SAGE, how: Readout = Readout.MEAN,
                *, ratio: bool = False) -> Family[Runs]:  # fmt: skip
        shape = Shape(EncoderSettings(kind=kind), readout=how)
        return Family(name, partial(by_network, shape=shape, training=training, ratio=ratio))

    kinds = [network(f"{kind.value}, mean", kind) for kind in Kind]
    summed = network(SUMMED, how=Readout.SUM)
    few = (kinds[0], summed, Family(TREES, by_trees), Family(SERVED, by_served))
    more = (
        *kinds[1:], network("sage, mean, ratio to roofline", ratio=True),
        network("mlp, sum", Kind.MLP, Readout.SUM),
    )  # fmt: skip
    return (
        Part(MODEL, 5, few), Part(FAMILY, 5, few), Part(MODEL, 1, (*few, *more)),
        Part(RANDOM, 1, few),
    )  # fmt: skip


def by_network(
    train: Runs, test: Runs, seed: int, *, shape: Shape, training: Training, ratio: bool = False
) -> Floats:
    """Return [test] log seconds; ``ratio``: the roofline's are the base."""
    data = examples(train)
    if ratio:
        base = roofline(train)
        for one in data:
            one.labels = one.labels - torch.from_numpy(base[one.place.numpy()]).float()[:, None]
    network, _ = fit(data, shape, training, seed=seed)
    found = answers(network, examples(test))[:, 0]
    return found + roofline(test) if ratio else found


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
    return sum(part.folds * len(part.families) for part in parts) + (MODEL.count or 0)


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
    own, costs = _own_runs(seed, advance), speed(rows, seed=seed)
    models, families = (len(set(names.tolist())) for names in (rows.model, rows.family))
    titles = ("prediction of one graph", *(f"ms, {n} settings" for n in SETTINGS))
    return Report(
        "Graph networks of model latency beside trees and what is served",
        (f"{len(rows)} measurements of {models} models of {families} families that have a graph.",),
        (
            *(
                results_section(
                    part.name, [one for one in results if one.split == part.name], SHOWN,
                    seconds="training s",
                ) for part in parts
            ),
            results_section("our own runs on one CPU core (sage, sum), unseen models", own, SHOWN),
            Section("costs", titles, [
                (what, *(f"{one:.2f}" for one in ms)) for what, ms in costs.items()
            ]),
        ),
        {"rows": len(rows), "models": models, "families": families, "results": results,
         "own_runs": own, "costs": costs},
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


def _own_runs(seed: int, advance: Callable[..., None]) -> list[Result]:
    """Return each target that was measured, on folds of models."""
    rows, labels = own_labels()
    found, split = np.empty_like(labels), Split("unseen model", "model")
    for fold in split.folds(rows, seed):
        data = examples(rows[fold.train], labels[fold.train])
        network, _ = fit(data, SHAPE, OWN_TRAINING, seed=seed)
        found[fold.test] = answers(network, examples(rows[fold.test]))
        advance()
    known = np.isfinite(labels)
    return [
        Result(split.name, target, figures(
            labels[known[:, n], n], found[known[:, n], n], rows.model[known[:, n]]
        ))
        for n, target in enumerate(TARGETS) if known[:, n].any()
    ]  # fmt: skip


def speed(rows: Runs, *, graphs: int = 40, seed: int = 0) -> dict[str, tuple[float, ...]]:
    """Milliseconds of features and of answers on one thread, the median over some graphs of the
    fastest repeat, by number of settings; what the weights are does not matter.

    Trees are XGBoost's own; their features are those of the graph (roofs apart).
    """
    chosen = np.random.default_rng(seed).permutation(np.unique(rows.graph))[:graphs]
    some = rows[np.isin(rows.graph, chosen)]
    data = examples(some)
    network, _ = fit(data, SHAPE, Training(epochs=1), seed=seed)
    read = timm_runs.graphs().graphs
    table = tree_features(some)
    trees = trees_of(seed).fit(table, np.log(some.seconds))
    found: dict[str, list[list[float]]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for one in data:
        first, place = one.columns[:1], one.place[:1].numpy()
        graph = read[int(some.graph[place[0]])]
        row = table[place]
        times: dict[str, list[float]] = {}
        for count in SETTINGS:
            one.columns = first.repeat(count, 1)
            inputs = (one.x, one.edge_index, one.count, one.statics, one.columns)
            answer = {
                "network's features": partial(features, graph),
                "network, PyTorch": partial(network.one_graph, *inputs),
                "trees' features": partial(tree_graph, graph),
                "trees": partial(trees.predict, np.repeat(row, count, axis=0)),
            }
            with torch.no_grad():
                for what, ask in answer.items():
                    times.setdefault(what, []).append(_fastest_ms(ask))
        for what, ms in times.items():
            found.setdefault(what, []).append(ms)
    torch.set_num_threads(threads)
    return {what: tuple(np.median(ms, axis=0).tolist()) for what, ms in found.items()}


def features(graph: ModelGraph) -> tuple[CompactGraph, Floats32]:
    """Return all that a network sees of a graph; a copy has nothing cached."""
    own = replace(graph)
    return compact(own), static_features(own)


def tree_graph(graph: ModelGraph) -> Floats:
    """Return all that trees see of a graph but its roofs."""
    return graph_features(work_of(replace(graph)))


def _fastest_ms(ask: Callable[[], object]) -> float:
    spent = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - start)
    return 1e3 * min(spent)


def evaluate(options: Options) -> Report:
    """Report kinds, readouts and trees on the same folds, and what an answer costs."""
    parts = plan(TRAINING)
    with step_bar("evaluating", steps(parts)) as advance:
        return networks_report(timm_runs.runs(), parts, seed=options.seed, advance=advance)
