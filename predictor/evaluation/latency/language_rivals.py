"""The cheap rivals of GNN + language model, on its rows: no graph network, no text, no GPU."""

from __future__ import annotations

import numpy as np

from berth.predictor.ceilings import Floats
from berth.predictor.training.latency.data import Graphs, Places, Runs, graphs, scalars
from berth.predictor.training.latency.few_shot.learn import learn
from berth.predictor.training.latency.few_shot.posterior import fit
from berth.predictor.training.latency.few_shot.table import table
from berth.predictor.training.latency.language.examples import Adaptation
from berth.predictor.training.latency.language.stages import Stages

GAUSSIAN, TREES = "Gaussian process over roofline", "XGBoost on totals"
MOST_ROWS = 3000
"""Of the base, for the Gaussian process, which takes their cube."""
HEAVY = 10.0
"""Weight of a given row of the new group beside one of the base, for the trees."""


def cheap(stages: Stages, dealt: Adaptation) -> dict[str, Floats]:
    """[tested rows] seconds by each, from the base's rows and those given."""
    corpus = stages.parts.corpus
    base, seed = corpus.division.base, stages.parts.config.seed
    return {
        GAUSSIAN: gaussian(corpus.runs, graphs(), base, dealt, seed=seed),
        TREES: trees(corpus.runs, base, dealt, seed=seed),
    }


def gaussian(runs: Runs, known: Graphs, base: Places, dealt: Adaptation, *, seed: int) -> Floats:
    """[tested rows] seconds: the few-shot predictor of new platforms; of a new family, the same
    process with the given rows among those that it learnt from.
    """
    some = np.sort(np.random.default_rng(seed).permutation(base)[:MOST_ROWS])
    whole = table(runs[np.concatenate((some, dealt.given, dealt.test))], known)
    at_base = np.arange(len(some))
    at_given = len(some) + np.arange(len(dealt.given))
    at_test = at_given[-1] + 1 + np.arange(len(dealt.test))
    kernel = learn(whole[at_base], seed=seed)
    asked = whole[at_test]
    if dealt.group.column == "device":
        own = whole[np.concatenate((at_given, at_test))]
        places = np.arange(len(at_given))
        moved = fit(whole[at_base], kernel).joint(own.cases).moved(places, own.residual[places])
        residual = moved.mean[len(at_given) :]
    else:
        learnt = fit(whole[np.concatenate((at_base, at_given))], kernel)
        across = kernel.covariance(learnt.cases, asked.cases)
        residual = across.T @ learnt.weights + learnt.offset
    return np.asarray(np.exp(residual + asked.cases.log_roof))


def trees(runs: Runs, base: Places, dealt: Adaptation, *, seed: int) -> Floats:
    """[tested rows] seconds: XGBoost on published totals and the run's settings."""
    import xgboost  # noqa: PLC0415 - a training library

    rows = np.concatenate((base, dealt.given))
    weight = np.concatenate((np.ones(len(base)), np.full(len(dealt.given), HEAVY)))
    model = xgboost.XGBRegressor(
        n_estimators=400,
        max_depth=6,
        learning_rate=0.08,
        subsample=0.8,
        random_state=seed,
        n_jobs=1,
    )
    model.fit(scalars(runs[rows]), np.log(runs.seconds[rows]), sample_weight=weight)
    return np.asarray(np.exp(model.predict(scalars(runs[dealt.test]))), np.float64)
