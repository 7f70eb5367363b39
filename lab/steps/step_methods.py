"""Every way to predict training steps: the shipped one, TraPPM, baselines; time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import xgboost
from scipy.optimize import nnls
from torch_geometric.data import Data

from berth.predictor.footprint.footprint import MOMENTUM, MemoryTask, Need, count
from berth.predictor.hardware.device import Numbers
from lab.ground.evaluate import Family
from lab.ground.resume import Resume
from lab.ground.table import Floats, Places
from lab.latency import timm_runs
from lab.latency.model_names import family_of
from lab.published.graph_networks.fit_network import answers
from lab.published.graph_networks.graph_data import data_of, with_runs
from lab.published.graph_networks.node_features import compact, static_features
from lab.published.trappm import auto_encoder, step_regressor, unlabelled_graphs
from lab.published.trappm.auto_encoder import Frozen, links, pretrain
from lab.published.trappm.step_regressor import Regressor, fit_regressor
from lab.steps.fit_steps import TREES, fit
from lab.steps.step_rows import Steps

PRETRAINED, DRAWN, ABSENT = "pre-trained", "as drawn, frozen", "absent"
NAMES = {
    PRETRAINED: "TraPPM, auto-encoder pre-trained",
    DRAWN: "TraPPM, auto-encoder as drawn",
    ABSENT: "SAGE regressor alone",
}
"""Of the auto-encoder beside the regressor; the second is the thesis's ablation (5.5.9)."""
COST_MODEL, OURS = "cost model alone", "cost model + trees + process (shipped)"
_HELD_OUT = 0.2
_HIDDEN = 0.1


@dataclass(frozen=True)
class Encoded:
    """The auto-encoder, both arms: how well edges are predicted, and [graphs, width] embeddings of
    timm's graphs by arm."""

    about: dict[str, Any]
    embeddings: dict[str, Floats]


def encoded(seed: int, resume: Resume, key: str, advance: Callable[..., None]) -> Encoded:
    """Return a fifth of timm's families is held out of the auto-encoder's own training."""
    design = auto_encoder.Design()

    def make() -> dict[str, Any]:
        found = unlabelled_graphs.unlabelled(seed=seed, advance=advance)
        family = np.array([family_of(a.model) for a in timm_runs.graphs().architectures])
        names = np.unique(family)
        draw = np.random.default_rng(seed)
        away = np.isin(family, draw.choice(names, round(_HELD_OUT * len(names)), replace=False))
        timm, *others = (
            [data_of(compact(graph, design.layers)) for graph in graphs]
            for graphs in found.values()
        )
        learnt = [one for one, gone in zip(timm, away, strict=True) if not gone]
        unseen = [one for one, gone in zip(timm, away, strict=True) if gone]
        every = [*learnt, *(one for graphs in others for one in graphs)]
        sources = {name: len(graphs) for name, graphs in found.items()} | {"timm": len(learnt)}
        arms = {}
        for arm, epochs in ((PRETRAINED, design.training.epochs), (DRAWN, 0)):
            frozen = pretrain(every, _with_epochs(design, epochs), seed=seed, advance=advance)
            arms[arm] = {
                **_edges(frozen, unseen, seed), "losses": frozen.losses,
                "embeddings": frozen.embeddings(timm).tolist(),
            }  # fmt: skip
        return {
            "sources": sources, "held_out": len(unseen),
            "families_held_out": sorted(set(family[away].tolist())), "arms": arms,
        }  # fmt: skip

    found = resume.value(f"{key}/auto-encoder", make)
    embeddings = {arm: np.array(one.pop("embeddings")) for arm, one in found["arms"].items()}
    return Encoded(found, embeddings)


def _with_epochs(design: auto_encoder.Design, epochs: int) -> auto_encoder.Design:
    return replace(design, training=replace(design.training, epochs=epochs))


def _edges(frozen: Frozen, data: Sequence[Data], seed: int) -> dict[str, Any]:
    """AUC, AP and loss of edges, and of edges that pass no messages."""
    return {
        name: asdict(links(frozen, data, seed=seed, hidden=hidden))
        for name, hidden in (("edges", 0.0), ("hidden edges", _HIDDEN))
    }


@cache
def _graphs() -> tuple[tuple[Data, ...], Floats]:
    read, steps = timm_runs.graphs().graphs, step_regressor.Design().layers
    data = tuple(data_of(compact(graph, steps)) for graph in read)
    return data, np.array([static_features(graph) for graph in read], np.float64)


def statics(steps: Steps) -> Floats:
    """Return [rows, ...] the thesis's static features, and the layout."""
    return np.column_stack([
        _graphs()[1][steps.runs.graph], np.log(steps.batch), steps.runs.layout == "nhwc",
    ])  # fmt: skip


def per_sample(steps: Steps) -> Floats:
    """Return [rows, 2] logarithms of seconds a sample and bytes a step; NaN where nobody
    measured."""
    seconds, memory = steps.labels.T
    return np.asarray(np.log(np.column_stack([seconds / steps.batch, memory])))


def _examples(steps: Steps, embeddings: Floats | None) -> list[Data]:
    graphs, of_graph = _graphs()
    found = with_runs(
        graphs, steps.runs.graph, statics=of_graph, columns=statics(steps),
        labels=per_sample(steps),
    )  # fmt: skip
    for one in found:
        place = int(steps.runs.graph[one.place[0]])
        given = np.zeros((1, 0)) if embeddings is None else embeddings[[place]]
        one.frozen = torch.from_numpy(given).float()
    return found


def trappm(
    steps: Steps,
    embeddings: Floats | None,
    *,
    seed: int,
    start: Regressor | None = None,
    design: step_regressor.Design | None = None,
) -> Regressor:
    """TraPPM's second phase on these rows."""
    chosen = design or step_regressor.Design()
    return fit_regressor(_examples(steps, embeddings), chosen, seed=seed, start=start)


def predicted_by(network: Regressor, steps: Steps, embeddings: Floats | None) -> Floats:
    """Return [rows, 2] logarithms of seconds a step, and bytes."""
    return _of_steps(answers(network, _examples(steps, embeddings)), steps)


def families(encoder: Encoded) -> list[Family[Steps]]:
    """Return all methods: [rows, 2] logarithms of seconds and bytes of a step; NaN: not
    predicted."""
    return [
        Family(COST_MODEL, partial(_counted, learners=())),
        Family(OURS, partial(_counted, learners=("trees", "process"))),
        Family("XGBoost, static features", partial(_regressed, rows_of=statics, make=_trees)),
        Family("XGBoost, graph features", partial(_regressed, rows_of=_features, make=_trees)),
        Family("MLP, static features", partial(_regressed, rows_of=statics, make=_perceptron)),
        *(
            Family(name, partial(_network, embeddings=encoder.embeddings.get(arm)))
            for arm, name in NAMES.items()
        ),
    ]


def _network(train: Steps, test: Steps, seed: int, *, embeddings: Floats | None) -> Floats:
    return predicted_by(trappm(train, embeddings, seed=seed), test, embeddings)


def _counted(train: Steps, test: Steps, seed: int, *, learners: Sequence[str]) -> Floats:
    """Return the cost model's time; memory as counted from the graph, at rates of the training
    rows."""
    memory = np.full(len(test), np.nan)
    there = np.isfinite(train.labels[:, 1])
    if there.any():
        rows, truth = _tensors(train)[there], train.labels[there, 1]
        rates, _ = nnls(rows / truth[:, None], np.ones(len(rows)))
        memory = np.log(_tensors(test) @ rates)
    return np.column_stack([fit(train, seed=seed, learners=learners).predict(test), memory])


@cache
def _needs() -> tuple[Need, ...]:
    return tuple(
        count(graph, MemoryTask.TRAINING, on_gpu=False, numbers=Numbers.FP32, moments=MOMENTUM)
        for graph in timm_runs.graphs().graphs
    )


def _tensors(steps: Steps) -> Floats:
    """Return [rows, 3] bytes that live with the weights, with the batch, and one: of a step on a
    CPU."""
    needs = [_needs()[n] for n in steps.runs.graph.tolist()]
    fixed = np.array([need.weights + need.gradients + need.moments for need in needs], float)
    grown = np.array([need.activations + need.inputs for need in needs], float)
    return np.column_stack([fixed, grown * steps.batch, np.ones(len(needs))])


def _features(steps: Steps) -> Floats:
    return np.column_stack([np.log1p(steps.features), statics(steps)])


def _trees(seed: int) -> Any:
    return xgboost.XGBRegressor(**TREES, random_state=seed)


def _perceptron(seed: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor  # noqa: PLC0415
    from sklearn.neural_network import MLPRegressor  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    net = MLPRegressor(hidden_layer_sizes=(64, 64), max_iter=400, random_state=seed)
    whole = make_pipeline(StandardScaler(), net)
    return TransformedTargetRegressor(whole, transformer=StandardScaler())


def _regressed(
    train: Steps,
    test: Steps,
    seed: int,
    *,
    rows_of: Callable[[Steps], Floats],
    make: Callable[[int], Any],
) -> Floats:
    """Return a regressor for each target that was measured."""
    rows, aims, asked = rows_of(train), per_sample(train), rows_of(test)
    found = np.full((len(test), 2), np.nan)
    for column in range(2):
        there = np.isfinite(aims[:, column])
        if there.sum() > 1:
            found[:, column] = make(seed).fit(rows[there], aims[there, column]).predict(asked)
    return _of_steps(found, test)


def _of_steps(per: Floats, steps: Steps) -> Floats:
    """Return seconds of a sample as seconds of a step."""
    return np.column_stack([per[:, 0] + np.log(steps.batch), per[:, 1]])


def seventy_thirty(steps: Steps, seed: int) -> tuple[Places, Places]:
    """Return the thesis's split: rows at random, 70:30 within each family (section 5.5.4)."""
    draw = np.random.default_rng(seed)
    test: list[int] = []
    for family in np.unique(steps.runs.family):
        own = draw.permutation(np.flatnonzero(steps.runs.family == family))
        test += own[: round(0.3 * len(own))].tolist()
    held = np.sort(np.array(test))
    return np.setdiff1d(np.arange(len(steps)), held), held
