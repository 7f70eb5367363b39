"""What all stages learn from: graphs as tensors, their summaries, rows as prompts and times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from berth.predictor.families.graph.latency.node_features import (
    NODE_FEATURES,
    STATIC_FEATURES,
    CompactGraph,
    compact,
    static_features,
)
from lab.latency import timm_runs as data
from lab.latency.timm_runs import Graphs, Runs
from lab.published.graph_language.config import LanguageConfig
from lab.published.graph_language.examples import Division, divide, prompts
from lab.published.graph_language.prompts import summary
from lab.published.graph_networks.batch import GraphBatch
from lab.published.graph_networks.batch import together as joined

STATICS = len(STATIC_FEATURES)
FEATURES = len(NODE_FEATURES)


@dataclass(frozen=True)
class Corpus:
    """See the module. ``division`` says which rows may be learnt from."""

    runs: Runs
    division: Division
    graphs: tuple[CompactGraph, ...]
    """Standardised by the base's graphs."""
    statics: Tensor
    """[graphs, STATICS] likewise."""
    summaries: tuple[str, ...]
    prompts: tuple[str, ...]
    """[rows]"""
    seen: tuple[int, ...]
    """Graphs of the base's rows: all that stages 1 and 2 learn from."""
    digest: str

    def batch(self, graphs: Sequence[int], device: torch.device) -> GraphBatch:
        """These graphs as one."""
        made = joined([self.graphs[place] for place in graphs])
        moved = {
            name: getattr(made, name).to(device)
            for name in ("features", "source", "target", "times", "count", "owner")
        }
        return replace(made, **moved)


def published(config: LanguageConfig) -> Corpus:
    """timm's table, divided as the configuration asks for. Raises ToolMissing, DocumentError where
    the data sets are absent, UsageError for a group without rows.
    """
    table = data.runs()
    groups = [one.group for one in config.adapt]
    division = divide(
        table,
        groups,
        samples=config.samples,
        base=config.rows,
        test=config.test_rows,
        seed=config.seed,
    )
    return corpus(table, data.graphs(), division, config.encoder.layers)


def corpus(runs: Runs, graphs: Graphs, division: Division, steps: int) -> Corpus:
    """Everything from a table of rows and its graphs, for encoders of ``steps`` layers."""
    seen = tuple(sorted(set(runs.graph[division.base].tolist())))
    compacted = [compact(graph, steps) for graph in graphs.graphs]
    scale = _Scale.of(np.concatenate([compacted[place].features for place in seen]))
    totals = np.stack([static_features(graph) for graph in graphs.graphs])
    of_totals = _Scale.of(totals[list(seen)])
    standard = tuple(replace(one, features=scale(one.features)) for one in compacted)
    questions, summaries = tuple(prompts(runs)), tuple(summary(one) for one in graphs.graphs)
    arrays = [totals, *(part for one in standard for part in (one.features, one.edges))]
    return Corpus(
        runs=runs,
        division=division,
        graphs=standard,
        statics=torch.from_numpy(of_totals(totals)),
        summaries=summaries,
        prompts=questions,
        seen=seen,
        digest=_digest(runs, division, arrays, (*questions, *summaries)),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Mean 0 and deviation 1 over the rows it was made of; constant columns become 0 there."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.float32]) -> _Scale:
        wide = rows.astype(np.float64)
        return cls(wide.mean(axis=0), np.maximum(wide.std(axis=0), 0.05))

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return ((rows - self.mean) / self.deviation).clip(-10, 10).astype(np.float32)


def _digest(
    runs: Runs, division: Division, arrays: Iterable[NDArray[Any]], texts: Iterable[str]
) -> str:
    found = hashlib.sha256()
    places = (division.base, *(p for a in division.adaptations for p in (a.given, a.test)))
    for array in (runs.graph, runs.seconds, *places, *arrays):
        found.update(np.ascontiguousarray(array).tobytes())
    for text in texts:
        found.update(text.encode() + b"\n")
    return found.hexdigest()
