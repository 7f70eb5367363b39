"""Cheap baselines of GNN + language model, on its rows: no graph network, no text, no GPU."""

from __future__ import annotations

import numpy as np

from lab.ground.table import Floats, Places
from lab.latency import timm_runs
from lab.latency.timm_runs import Graphs, Runs, scalars
from lab.published.graph_language.corpus import Adaptation
from lab.published.graph_language.stages import Stages
from lab.transfer.platform_kernel import fit, learn
from lab.transfer.transfer_cases import measured_cases
from lab.transfer.transfer_methods import METHODS

PROCESS, TOTALS = "few-shot: process", "XGBoost on totals"
MOST_ROWS = 3000
"""Of the base, for the process, which takes their cube."""
HEAVY = 10.0
"""Weight of a given row of the new group beside one of the base, for the trees."""


def cheap(stages: Stages, dealt: Adaptation) -> dict[str, Floats]:
    """[tested rows] seconds by each, from the base's rows and those given."""
    corpus = stages.parts.corpus
    base, seed = corpus.division.base, stages.parts.config.seed
    found = few_shot(corpus.runs, timm_runs.graphs(), base, dealt, seed=seed)
    return found | {TOTALS: trees(corpus.runs, base, dealt, seed=seed)}


def few_shot(
    runs: Runs, known: Graphs, base: Places, dealt: Adaptation, *, seed: int
) -> dict[str, Floats]:
    """[tested rows] seconds by the methods of ``lab.transfer``; of a new family the process alone,
    as the others are made for new platforms and nothing else."""
    some = np.sort(np.random.default_rng(seed).permutation(base)[:MOST_ROWS])
    whole = measured_cases(runs[np.concatenate((some, dealt.given, dealt.test))], known)
    old, new = whole[np.arange(len(some))], whole[np.arange(len(some), len(whole))]
    samples = np.arange(len(dealt.given))
    kernel, residual = learn(old, seed=seed), new.residual[samples]
    if dealt.group.column == "device":
        guesses = {
            f"few-shot: {one.name}": one.fit(old, new.cases, kernel)(samples, residual)
            for one in METHODS
        }
    else:
        joint = fit(old, kernel).joint(new.cases, new_platform=False)
        guesses = {PROCESS: joint.moved(samples, residual).mean}
    return {
        name: np.asarray(np.exp((guess + new.cases.log_roof)[len(samples) :]))
        for name, guess in guesses.items()
    }


def trees(runs: Runs, base: Places, dealt: Adaptation, *, seed: int) -> Floats:
    """[tested rows] seconds: XGBoost on published totals and the run's settings."""
    import xgboost  # noqa: PLC0415 - a training library

    rows = np.concatenate((base, dealt.given))
    weight = np.concatenate((np.ones(len(base)), np.full(len(dealt.given), HEAVY)))
    model = xgboost.XGBRegressor(
        n_estimators=400, max_depth=6, learning_rate=0.08, subsample=0.8, random_state=seed,
        n_jobs=1,
    )  # fmt: skip
    model.fit(scalars(runs[rows]), np.log(runs.seconds[rows]), sample_weight=weight)
    return np.asarray(np.exp(model.predict(scalars(runs[dealt.test]))), np.float64)
