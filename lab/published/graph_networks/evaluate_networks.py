"""DIPPM's network beside what ``berth predict`` serves, on the same five folds.

GraphSAGE with the thesis's readout (mean of the nodes) on unseen models and on unseen families.
Hyper-parameters were set on inner folds of the first fold's training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from berth.plugin.report.progress_bars import step_bar
from berth.predictor.families.graph.latency.features import ROOF_FEATURES
from lab.experiments.experiment import Options
from lab.ground.evaluate import Family
from lab.ground.evaluate import evaluate as evaluate_families
from lab.ground.report import Report, results_section
from lab.ground.splits import Split
from lab.ground.table import Floats
from lab.latency import timm_runs
from lab.latency.fit_latency import learnt
from lab.latency.samples import sample_of, settings
from lab.latency.timm_devices import roof_of_device
from lab.latency.timm_runs import FAMILY, MODEL, Runs, roof_rows
from lab.published.graph_networks.fit_network import Training, answers, fit
from lab.published.graph_networks.latency_network import Shape
from lab.published.graph_networks.timm_examples import examples

NETWORK, SERVED = "sage, mean", "served: sum + process"
SPLITS = (MODEL, FAMILY)
TRAINING = Training()
SHOWN = ("rows", "mean_error", "median_error", "within_10")


def methods(training: Training = TRAINING) -> tuple[Family[Runs], ...]:
    """Return what is compared."""
    return Family(NETWORK, partial(by_network, training=training)), Family(SERVED, by_served)


def by_network(train: Runs, test: Runs, seed: int, *, training: Training) -> Floats:
    """Return [test] log seconds by a network that learnt the training rows."""
    network, _ = fit(examples(train), Shape(), training, seed=seed)
    return answers(network, examples(test))[:, 0]


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


def roofline(rows: Runs) -> Floats:
    """Return [rows] log seconds of an image: operators one after the other at full roofs, and their
    launches."""
    work = timm_runs.graphs().work
    roofs = roof_rows(rows, [work[n] for n in rows.graph.tolist()])
    launch_s = np.array([roof_of_device(device).launch_s for device in rows.device.tolist()])
    launches = roofs[:, ROOF_FEATURES.index("launches")] * launch_s / rows.batch
    return np.asarray(np.log(roofs[:, ROOF_FEATURES.index("roof_s")] + launches))


def networks_report(
    rows: Runs,
    compared: Sequence[Family[Runs]],
    *,
    splits: Sequence[Split] = SPLITS,
    seed: int = 0,
    advance: Callable[..., None] = lambda *_: None,
) -> Report:
    """Return each split on rows that have a graph. Raises UsageError: too few groups."""
    rows = rows[rows.has_graph]
    results = [
        one
        for split in splits
        for one in evaluate_families(
            compared, rows, split, log_measured=np.log(rows.seconds), groups=rows.model,
            seed=seed, advance=advance,
        )
    ]  # fmt: skip
    models, families = (len(set(names.tolist())) for names in (rows.model, rows.family))
    return Report(
        "Graph networks of model latency beside what is served",
        (f"{len(rows)} measurements of {models} models of {families} families that have a graph.",),
        tuple(
            results_section(
                split.name, [one for one in results if one.split == split.name], SHOWN,
                seconds="training s",
            ) for split in splits
        ),
        {"rows": len(rows), "models": models, "families": families, "results": results},
    )  # fmt: skip


def evaluate(options: Options) -> Report:
    """Report the network and the served method on the same folds."""
    compared = methods()
    with step_bar("evaluating", 5 * len(SPLITS) * len(compared)) as advance:
        return networks_report(
            timm_runs.runs(), compared, splits=SPLITS, seed=options.seed, advance=advance
        )
