"""What the section ``training`` is made of, part by part: each can be kept and gone on from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from berth.pilot.documents import write_text
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.families.graph.latency.node_features import (
    CompactGraph,
    compact,
    static_features,
)
from berth.predictor.footprint.footprint import MOMENTUM, Need, Task, count
from berth.predictor.hardware.roofs import Numbers
from lab.datasets.timm import BENCHMARK, GRAPHS
from lab.graphs.model_runs import DATA
from lab.ground.table import Places
from lab.latency import timm_runs as data
from lab.latency.model_names import family_of
from lab.published.trappm import corpus, regressor
from lab.published.trappm.fit import Fitted, Inputs, Rows, fit
from lab.published.trappm.links import Design
from lab.published.trappm.pretrain import Frozen, links, pretrain
from lab.steps.labels import Steps

PRETRAINED, RANDOM, ABSENT = "pre-trained", "as drawn, frozen", "absent"
ARMS = (PRETRAINED, RANDOM, ABSENT)
"""Of the auto-encoder beside the regressor; the second is the thesis's ablation (5.5.9)."""
_HELD_OUT = 0.2
_HIDDEN = 0.1


@dataclass(frozen=True)
class Session:
    """One evaluation: its seed, where parts are kept, who is told of each."""

    seed: int = 0
    folder: Path | None = None
    advance: Callable[[str], None] = lambda _: None

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, read from the folder where data and design are those of then."""
        path = None if self.folder is None else self.folder / "parts" / f"{name}-{self.seed}.json"
        if path is not None and path.is_file():
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                found = {}
            if found.get("key") == _key():
                self.advance(f"{name}: kept")
                return found["value"]
        value = make()
        if path is not None:
            write_text(path, json.dumps({"key": _key(), "value": value}))
        self.advance(name)
        return value


@cache
def _key() -> str:
    digest = hashlib.sha256(f"{BENCHMARK.sha256} {GRAPHS.sha256}".encode())
    digest.update(DATA.read_bytes())
    digest.update(repr((Design(), regressor.Design(), corpus.CONFIGURATIONS)).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Corpus:
    """Unlabelled graphs for the auto-encoder, ``compact``."""

    learnt: tuple[CompactGraph, ...]
    held_out: tuple[CompactGraph, ...]
    """timm's families that it never saw."""
    sources: dict[str, int]
    families: tuple[str, ...]
    """Those held out."""


def corpus_of(seed: int, advance: Callable[[str], None]) -> Corpus:
    """A fifth of timm's families is held out of the auto-encoder's own training."""
    found = corpus.unlabelled(seed=seed, advance=advance)
    family = np.array([family_of(a.model) for a in data.graphs().architectures])
    names = sorted(set(family.tolist()))
    some = np.random.default_rng(seed).choice(names, round(_HELD_OUT * len(names)), replace=False)
    away = np.isin(family, some)
    steps = Design().layers
    timm = [compact(graph, steps) for graph in found.pop("timm")]
    others = [compact(graph, steps) for graphs in found.values() for graph in graphs]
    return Corpus(
        (*(g for g, gone in zip(timm, away, strict=True) if not gone), *others),
        tuple(g for g, gone in zip(timm, away, strict=True) if gone),
        {"timm": int((~away).sum()), **{name: len(graphs) for name, graphs in found.items()}},
        tuple(sorted(some.tolist())),
    )


def auto_encoder(session: Session) -> dict[str, Any]:
    """Losses, how well edges are told, and the embeddings of all timm graphs, by arm."""
    seed, advance = session.seed, session.advance

    def make() -> dict[str, Any]:
        graphs = corpus_of(seed, advance)
        steps = Design().layers
        everything = [compact(graph, steps) for graph in data.graphs().graphs]
        found: dict[str, Any] = {
            "sources": graphs.sources, "held_out": len(graphs.held_out),
            "families_held_out": list(graphs.families), "arms": {},
        }  # fmt: skip
        for arm, design in ((PRETRAINED, Design()), (RANDOM, Design(epochs=0))):
            frozen = pretrain(
                graphs.learnt, design, seed=seed, advance=lambda loss: advance(f"loss {loss:.4f}")
            )
            found["arms"][arm] = {
                **_told(frozen, graphs, seed),
                "losses": frozen.losses,
                "embeddings": frozen.embeddings(everything).tolist(),
            }
        return found

    found: dict[str, Any] = session.kept("auto-encoder", make)
    return found


def _told(frozen: Frozen, graphs: Corpus, seed: int) -> dict[str, Any]:
    found = {}
    for name, hidden in (("edges", 0.0), ("hidden edges", _HIDDEN)):
        one = links(frozen, graphs.held_out, seed=seed, hidden=hidden)
        found[name] = {"auc": one.area_under_curve, "ap": one.average_precision, "loss": one.loss}
    return found


def inputs(session: Session, arm: str) -> Inputs:
    """The graphs of timm for a regressor, with an arm's embeddings."""
    if arm == ABSENT:
        return Inputs(_compact(), None)
    return Inputs(_compact(), np.array(auto_encoder(session)["arms"][arm]["embeddings"]))


@cache
def _compact() -> tuple[CompactGraph, ...]:
    return tuple(compact(graph, regressor.Design().layers) for graph in data.graphs().graphs)


@cache
def _statics() -> Floats:
    return np.array([static_features(graph) for graph in data.graphs().graphs])


def statics(steps: Steps) -> Floats:
    """[rows, ...] the thesis's static features, and the layout."""
    return np.column_stack([
        _statics()[steps.runs.graph], np.log(steps.runs.batch), steps.runs.layout == "nhwc",
    ])  # fmt: skip


@cache
def _needs() -> tuple[Need, ...]:
    return tuple(
        count(graph, Task.TRAINING, on_gpu=False, numbers=Numbers.FP32, moments=MOMENTUM)
        for graph in data.graphs().graphs
    )


def tensors_of(steps: Steps) -> Floats:
    """[rows, 3] bytes that live with the weights, with the batch, and one: of a step on a CPU."""
    needs = [_needs()[n] for n in steps.runs.graph.tolist()]
    fixed = np.array([need.weights + need.gradients + need.moments for need in needs], float)
    grown = np.array([need.activations + need.inputs for need in needs], float)
    return np.column_stack([fixed, grown * steps.runs.batch, np.ones(len(needs))])


def per_sample(steps: Steps) -> Floats:
    """[rows, 2] logarithms of seconds a sample and bytes a step; NaN where nobody measured."""
    found: Floats = np.log(
        np.column_stack([steps.labels[:, 0] / steps.runs.batch, steps.labels[:, 1]])
    )
    return found


def trappm(
    steps: Steps,
    known: Inputs,
    *,
    seed: int,
    start: Fitted | None = None,
    design: regressor.Design | None = None,
) -> Fitted:
    """TraPPM's second phase on these rows."""
    rows = Rows(steps.runs.graph, statics(steps), per_sample(steps))
    return fit(rows, known, design or regressor.Design(), seed=seed, start=start)


def said_by(fitted: Fitted, steps: Steps) -> Floats:
    """[rows, 2] logarithms of seconds a step, and bytes."""
    found = fitted.predict(steps.runs.graph, statics(steps))
    found[:, 0] += np.log(steps.runs.batch)
    return found


def seventy_thirty(steps: Steps, seed: int) -> tuple[Places, Places]:
    """The thesis's split: rows at random, 70:30 within each family (section 5.5.4)."""
    draw = np.random.default_rng(seed)
    test: list[int] = []
    for family in sorted(set(steps.runs.family.tolist())):
        own = draw.permutation(np.flatnonzero(steps.runs.family == family))
        test += own[: round(0.3 * len(own))].tolist()
    held = np.sort(np.array(test))
    return np.setdiff1d(np.arange(len(steps)), held), held
