"""Section ``training`` of ``python -m lab model-latency``: training steps, TraPPM and its rivals.

Labels: timm's training rows with a graph (RTX 3090, mixed precision) and our own on one CPU core.
Every method sees the same rows. Splits: the thesis's (70:30 in each family, rows at random, five
seeds), unseen model, unseen family (five folds each). The auto-encoder sees graphs, never labels;
a fifth of the families is out of its training, the rest of the graphs are not, as in the thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xgboost
from scipy.optimize import nnls

from berth.predictor.families.graph.latency.features import Floats
from lab.ground.figures import Figures, figures
from lab.ground.table import Places
from lab.latency.timm_runs import FAMILY, MODEL
from lab.steps import labels
from lab.steps.family import TREES, fit
from lab.steps.labels import Steps
from lab.steps.training_parts import (
    ABSENT,
    ARMS,
    PRETRAINED,
    RANDOM,
    Session,
    auto_encoder,
    inputs,
    per_sample,
    said_by,
    seventy_thirty,
    statics,
    tensors_of,
    trappm,
)
from lab.steps.training_transfer import SAMPLES, transfer

SEEDS = (1337, 1338, 1339, 1340, 1341)
"""The thesis's."""
ROWS = "rows at random, 70:30 in each family, five seeds"
SPLITS = (ROWS, MODEL.name, FAMILY.name)
LAW, OURS = "law alone", "law + trees + process (shipped)"
SCALARS, TREES_ALONE, MLP = (
    "XGBoost, static features",
    "XGBoost, graph features",
    ("MLP, static features"),
)
NAMES = {
    PRETRAINED: "TraPPM, auto-encoder pre-trained",
    RANDOM: "TraPPM, auto-encoder as drawn",
    ABSENT: "SAGE regressor alone",
}
DATA = {
    "gpu": "timm's training steps, RTX 3090, amp",
    "cpu": "our training steps, one core of epyc-genoa-vm, fp32",
}
TIME, MEMORY = "step time", "peak memory"
PARTS = 2 * len(SPLITS) * len(SEEDS) * (5 + len(ARMS)) + 3 * 2 * len(SAMPLES)
"""About as many steps as ``evaluate`` tells of."""
Method = Callable[[Steps, Steps, int], Floats]


@dataclass(frozen=True, slots=True)
class Row:
    """A method on a split; seconds of a step unless the target says otherwise."""

    data: str
    split: str
    method: str
    target: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class TrainingRuns:
    """The section."""

    rows: tuple[Row, ...]
    edges: dict[str, Any]
    """What the auto-encoder tells of edges, by arm."""
    transfer: tuple[dict[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "edges": self.edges,
            "transfer": list(self.transfer),
            "shipped": self.shipped(),
        }

    def shipped(self) -> dict[str, float]:
        """The shipped method's errors of the step time by name, for a bundle's manifest."""
        return {
            f"{DATA[row.data]}, {row.split}: {name} error": value
            for row in self.rows
            if (row.method, row.target) == (OURS, TIME)
            for name, value in (
                ("mean", row.figures.mean_error),
                ("median", row.figures.median_error),
            )
        }


def parts(steps: Steps, name: str, seed: int) -> list[tuple[Places, Places]]:
    """(train, test) of each part of a split."""
    if name == ROWS:
        return [seventy_thirty(steps, one + seed) for one in SEEDS]
    split = MODEL if name == MODEL.name else FAMILY
    return [(s.train, s.test) for s in split.folds(steps.runs, seed)]


def methods(session: Session) -> dict[str, Method]:
    """(train, test, seed) -> [test, 2] logarithms of seconds and bytes of a step, by name.

    Memory is NaN where a method does not tell it.
    """

    def network(arm: str) -> Method:
        def said(train: Steps, test: Steps, seed: int) -> Floats:
            return said_by(trappm(train, inputs(session, arm), seed=seed), test)

        return said

    return {
        LAW: lambda train, test, seed: _counted(train, test, (), seed),
        OURS: lambda train, test, seed: _counted(train, test, ("trees", "process"), seed),
        SCALARS: lambda train, test, seed: _boosted(train, test, statics, seed),
        TREES_ALONE: lambda train, test, seed: _boosted(train, test, _features, seed),
        MLP: _perceptron,
        **{NAMES[arm]: network(arm) for arm in ARMS},
    }


def _counted(train: Steps, test: Steps, learners: Sequence[str], seed: int) -> Floats:
    """The law's time; memory as it is counted from the graph, at rates of the training rows."""
    memory = np.full(len(test), np.nan)
    there = np.isfinite(train.labels[:, 1])
    if there.any():
        rows, truth = tensors_of(train)[there], train.labels[there, 1]
        rates, _ = nnls(rows / truth[:, None], np.ones(len(rows)))
        memory = np.log(tensors_of(test) @ rates)
    return np.column_stack([fit(train, seed=seed, learners=learners).predict(test), memory])


def _features(steps: Steps) -> Floats:
    return np.column_stack([np.log1p(steps.features), statics(steps)])


def _boosted(train: Steps, test: Steps, rows_of: Callable[[Steps], Floats], seed: int) -> Floats:
    rows, aims, asked = rows_of(train), per_sample(train), rows_of(test)
    found = np.full((len(test), 2), np.nan)
    for column in range(2):
        there = np.isfinite(aims[:, column])
        if there.sum() > 1:
            model = xgboost.XGBRegressor(**TREES, random_state=seed)
            found[:, column] = model.fit(rows[there], aims[there, column]).predict(asked)
    found[:, 0] += np.log(test.runs.batch)
    return found


def _perceptron(train: Steps, test: Steps, seed: int) -> Floats:
    from sklearn.neural_network import MLPRegressor  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    aims = per_sample(train)
    found = np.full((len(test), 2), np.nan)
    for column in range(2):
        there = np.isfinite(aims[:, column])
        if there.sum() > 1:
            net = MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=400, random_state=seed)
            model = make_pipeline(StandardScaler(), net)
            known = aims[there, column]
            middle, spread = known.mean(), max(known.std(), 1e-9)
            model.fit(statics(train)[there], (known - middle) / spread)
            found[:, column] = middle + spread * model.predict(statics(test))
    found[:, 0] += np.log(test.runs.batch)
    return found


def table(
    name: str, steps: Steps, session: Session, only: Sequence[str] | None = None
) -> list[Row]:
    """All methods (or some) on all splits of one data set."""
    rows = []
    for where in SPLITS:
        pieces = parts(steps, where, session.seed)
        truth = np.concatenate([steps.labels[test, :2] for _, test in pieces])
        models = np.concatenate([_numbers(steps)[test] for _, test in pieces])
        for method, ask in methods(session).items():
            if only is not None and method not in only:
                continue
            said = []
            for number, (train, test) in enumerate(pieces):

                def one(
                    ask: Method = ask, train: Places = train, test: Places = test, n: int = number
                ) -> list[list[float]]:
                    found: list[list[float]] = ask(
                        steps[train], steps[test], session.seed + n
                    ).tolist()
                    return found

                said.append(np.array(session.kept(f"{name}, {where}, {method}, {number}", one)))
            guess = np.concatenate(said).astype(float)
            for column, target in enumerate((TIME, MEMORY)):
                there = np.isfinite(guess[:, column]) & np.isfinite(truth[:, column])
                if there.any():
                    told = figures(
                        np.log(truth[there, column]), guess[there, column], models[there]
                    )
                    rows.append(Row(name, where, method, target, told))
    return rows


def _numbers(steps: Steps) -> Places:
    return np.unique(steps.runs.model, return_inverse=True)[1].astype(np.int64)


def evaluate(session: Session) -> TrainingRuns:
    """The section; a folder keeps each part. Raises ToolMissing without the data or torch."""
    found = auto_encoder(session)
    rows = [
        *table("gpu", labels.gpu(), session),
        *table("cpu", labels.cpu(), session),
    ]
    edges = {
        arm: {key: value for key, value in one.items() if key != "embeddings"}
        for arm, one in found["arms"].items()
    }
    edges |= {key: found[key] for key in ("sources", "held_out", "families_held_out")}
    return TrainingRuns(tuple(rows), edges, tuple(transfer(session)))
