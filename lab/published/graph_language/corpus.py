"""What all stages learn from: graphs as tensors, their summaries, and rows as prompts and times.

The base never sees a group (a device, a family) that an adaptation names. An adaptation learns from
``samples`` rows of its group, of as many models as possible, and is tested on rows of the group's
other models. Rows of two groups at once belong to neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from berth.pilot.errors import UsageError
from lab.ground.splits import Fold, few
from lab.ground.table import Places
from lab.latency import timm_runs
from lab.latency.timm_runs import Graphs, Runs
from lab.published.graph_language.language_config import LanguageConfig
from lab.published.graph_language.texts import prompts, summary
from lab.published.graph_networks.graph_data import data_of
from lab.published.graph_networks.node_features import (
    STATIC_FEATURES,
    compact,
    static_features,
)
from lab.published.networks import Standardise, tensor

STATICS = len(STATIC_FEATURES)


@dataclass(frozen=True, slots=True)
class Division:
    """Which rows of the table the base learns from, and the rows of each adaptation."""

    base: Places
    adaptations: tuple[Fold, ...]
    """In the order of the configuration: rows to learn from and rows to be tested on."""


def divide(runs: Runs, config: LanguageConfig) -> Division:
    """Divide the rows that have a graph, by the configuration's seed.

    Raises UsageError for a group without rows, or with too few models to learn from and to test.
    """
    members = []
    for column, value in (adaptation.group for adaptation in config.adapt):
        members.append(np.asarray(getattr(runs, column) == value))
        if not members[-1].any():
            names = ", ".join(sorted(set(getattr(runs, column).tolist())))
            raise UsageError(f"no rows of {column} {value!r}", hint=f"known: {names}")
    groups_of_row = np.sum(members, axis=0)
    draw = np.random.default_rng(config.seed)
    base = draw.permutation(np.flatnonzero(runs.has_graph & (groups_of_row == 0)))
    if not len(base):
        raise UsageError("no rows are left for the base", hint="name fewer adaptations")
    folds = []
    for adaptation, of_group in zip(config.adapt, members, strict=True):
        own = np.flatnonzero(of_group & runs.has_graph & (groups_of_row == 1))
        fold = few(runs.architecture, own, config.samples, config.seed)
        if len(fold.train) < config.samples or not len(fold.test):
            models = len(set(runs.architecture[own].tolist()))
            column, value = adaptation.group
            raise UsageError(
                f"{column} {value!r} has {len(own)} rows of {models} models with a graph: too few "
                f"for {config.samples}"
            )
        folds.append(Fold(fold.train, np.sort(draw.permutation(fold.test)[: config.test_rows])))
    return Division(np.sort(base[: config.rows]), tuple(folds))


@dataclass(frozen=True)
class Corpus:
    """The table of runs with its graphs and texts; ``division`` says who learns from what."""

    runs: Runs
    division: Division
    graphs: tuple[Data, ...]
    """Standardised by the base's graphs."""
    statics: Tensor
    """[graphs, STATICS] totals of each graph, likewise."""
    summaries: tuple[str, ...]
    """[graphs]"""
    prompts: tuple[str, ...]
    """[rows]"""
    seen: tuple[int, ...]
    """Graphs of the base's rows: all that stages 1 and 2 learn from."""
    digest: str
    """Of all that is learnt from."""

    def batch(self, graphs: Sequence[int], device: torch.device) -> Data:
        """Return these graphs as one."""
        return Batch.from_data_list([self.graphs[place] for place in graphs]).to(device)


def published(config: LanguageConfig) -> Corpus:
    """Return timm's inference as a corpus.

    Raises ToolMissing and DocumentError without the data sets, UsageError as ``divide`` does.
    """
    return corpus(timm_runs.runs(), timm_runs.graphs(), config)


def corpus(runs: Runs, known: Graphs, config: LanguageConfig) -> Corpus:
    """Return a table of runs and its graphs as a corpus."""
    division = divide(runs, config)
    seen = tuple(sorted(set(runs.graph[division.base].tolist())))
    graphs = tuple(data_of(compact(graph, config.encoder.layers)) for graph in known.graphs)
    scale = Standardise(torch.cat([graphs[place].x for place in seen]).double().numpy())
    for graph in graphs:
        graph.x = scale(graph.x)
    totals = np.stack([static_features(graph) for graph in known.graphs]).astype(np.float64)
    questions = tuple(prompts(runs))
    summaries = tuple(summary(graph) for graph in known.graphs)
    digest = hashlib.sha256()
    parts = [part for fold in division.adaptations for part in (fold.train, fold.test)]
    for array in (runs.graph, runs.seconds, division.base, *parts, totals):
        digest.update(np.ascontiguousarray(array).tobytes())
    for graph in graphs:
        digest.update(graph.x.numpy().tobytes() + graph.edge_index.numpy().tobytes())
    digest.update("\n".join((*questions, *summaries)).encode())
    return Corpus(
        runs, division, graphs, Standardise(totals[list(seen)])(tensor(totals)), summaries,
        questions, seen, digest.hexdigest(),
    )  # fmt: skip
