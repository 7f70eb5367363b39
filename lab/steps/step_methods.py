"""Ways to predict training steps: the shipped one (time) and TraPPM (time and memory)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from lab.ground.evaluate import Family
from lab.ground.resume import Resume
from lab.ground.table import Floats, Places
from lab.latency import timm_runs
from lab.latency.model_names import family_of
from lab.published.graph_networks.fit_network import answers
from lab.published.graph_networks.graph_data import data_of, with_runs
from lab.published.graph_networks.node_features import compact, static_features
from lab.published.trappm import auto_encoder, step_regressor, unlabelled_graphs
from lab.published.trappm.auto_encoder import links, pretrain
from lab.published.trappm.step_regressor import fit_regressor
from lab.steps.fit_steps import fit
from lab.steps.step_rows import Steps

TRAPPM = "TraPPM, auto-encoder pre-trained"
OURS = "cost model + trees + process (shipped)"
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Encoded:
    """The pre-trained auto-encoder: how well edges are predicted, and [graphs, width] embeddings of
    timm's graphs."""

    about: dict[str, Any]
    embeddings: Floats


def encoded(seed: int, resume: Resume, key: str, advance: Callable[..., None]) -> Encoded:
    """Return the auto-encoder; a fifth of timm's families is held out of its training."""
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
        frozen = pretrain(every, design, seed=seed, advance=advance)
        return {
            "sources": {name: len(graphs) for name, graphs in found.items()}
            | {"timm": len(learnt)},
            "held_out": len(unseen),
            "edges": asdict(links(frozen, unseen, seed=seed)),
            "losses": frozen.losses,
            "embeddings": frozen.embeddings(timm).tolist(),
        }

    found = resume.value(f"{key}/auto-encoder", make)
    embeddings = np.array(found.pop("embeddings"))
    return Encoded(found, embeddings)


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


def _examples(steps: Steps, embeddings: Floats) -> list[Data]:
    graphs, of_graph = _graphs()
    found = with_runs(
        graphs, steps.runs.graph, statics=of_graph, columns=statics(steps),
        labels=per_sample(steps),
    )  # fmt: skip
    for one in found:
        place = int(steps.runs.graph[one.place[0]])
        one.frozen = torch.from_numpy(embeddings[[place]]).float()
    return found


def shipped() -> Family[Steps]:
    """Return the shipped method: [rows, 2] log seconds of a step, and NaN for its bytes."""
    return Family(OURS, _shipped)


def trappm_of(encoder: Encoded) -> Family[Steps]:
    """Return TraPPM: [rows, 2] logarithms of seconds and bytes of a step."""
    return Family(TRAPPM, partial(_network, embeddings=encoder.embeddings))


def _network(train: Steps, test: Steps, seed: int, *, embeddings: Floats) -> Floats:
    learnt = fit_regressor(_examples(train, embeddings), step_regressor.Design(), seed=seed)
    return _of_steps(answers(learnt, _examples(test, embeddings)), test)


def _shipped(train: Steps, test: Steps, seed: int) -> Floats:
    seconds = fit(train, seed=seed, learners=("trees", "process")).predict(test)
    return np.column_stack([seconds, np.full(len(test), np.nan)])


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
