"""What all stages learn from: graphs as tensors, their summaries, rows as prompts and times; and
who may learn from which rows.

The base never sees a group (a device, a family) that an adaptation names. An adaptation gets
``samples`` rows of its group, of as many models as can be, and is tested on rows of the group's
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
from lab.ground.splits import few
from lab.ground.table import Flags, Places
from lab.latency import timm_runs
from lab.latency.timm_runs import Graphs, Runs
from lab.published.graph_language.language_config import LanguageConfig
from lab.published.graph_language.texts import prompts, summary
from lab.published.graph_networks.graph_data import data_of
from lab.published.graph_networks.node_features import (
    NODE_FEATURES,
    STATIC_FEATURES,
    compact,
    static_features,
)
from lab.published.networks import Standardise, tensor

STATICS = len(STATIC_FEATURES)
FEATURES = len(NODE_FEATURES)


@dataclass(frozen=True, slots=True)
class Group:
    """What an adaptation is to: a device or a family."""

    column: str
    """``device`` or ``family``."""
    value: str

    def rows(self, runs: Runs) -> Flags:
        """Return [rows] those of the group."""
        return np.asarray(getattr(runs, self.column) == self.value)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Places in the table of rows."""

    group: Group
    given: Places
    test: Places


@dataclass(frozen=True, slots=True)
class Division:
    """Who learns from what."""

    base: Places
    adaptations: tuple[Adaptation, ...]

    @property
    def all(self) -> list[Places]:
        """Return every part."""
        return [self.base, *(part for one in self.adaptations for part in (one.given, one.test))]


def divide(
    runs: Runs, groups: Sequence[Group], *, samples: int, base: int, test: int, seed: int
) -> Division:
    """At most ``base`` rows for the base and ``test`` of each adaptation, drawn by ``seed``.

    Raises UsageError for a group without rows, or with too few models to give and to test.
    """
    held = [group.rows(runs) for group in groups]
    for group, rows in zip(groups, held, strict=True):
        if not rows.any():
            names = ", ".join(sorted(set(getattr(runs, group.column).tolist())))
            raise UsageError(f"no rows of {group.column} {group.value!r}", hint=f"known: {names}")
    taken = np.sum(held, axis=0) if held else np.zeros(len(runs), np.int64)
    draw = np.random.default_rng(seed)
    free = draw.permutation(np.flatnonzero(runs.has_graph & (taken == 0)))
    if not len(free):
        raise UsageError("no rows are left for the base", hint="name fewer adaptations")
    found = []
    for group, rows in zip(groups, held, strict=True):
        own = np.flatnonzero(rows & runs.has_graph & (taken == 1))
        fold = few(runs.architecture, own, samples, seed)
        if len(fold.train) < samples or not len(fold.test):
            many = len(set(runs.architecture[own].tolist()))
            raise UsageError(
                f"{group.column} {group.value!r} has {len(own)} rows of {many} models with a "
                f"graph: too few for {samples}"
            )
        found.append(Adaptation(group, fold.train, np.sort(draw.permutation(fold.test)[:test])))
    return Division(np.sort(free[:base]), tuple(found))


@dataclass(frozen=True)
class Corpus:
    """See the module. ``division`` says which rows may be learnt from."""

    runs: Runs
    division: Division
    graphs: tuple[Data, ...]
    """Standardised by the base's graphs."""
    statics: Tensor
    """[graphs, STATICS] likewise."""
    summaries: tuple[str, ...]
    prompts: tuple[str, ...]
    """[rows]"""
    seen: tuple[int, ...]
    """Graphs of the base's rows: all that stages 1 and 2 learn from."""
    digest: str

    def batch(self, graphs: Sequence[int], device: torch.device) -> Data:
        """These graphs as one."""
        return Batch.from_data_list([self.graphs[place] for place in graphs]).to(device)


def published(config: LanguageConfig) -> Corpus:
    """timm's table, divided as the configuration asks for. Raises ToolMissing, DocumentError where
    the data sets are absent, UsageError for a group without rows.
    """
    table = timm_runs.runs()
    division = divide(
        table, [Group(*one.group) for one in config.adapt], samples=config.samples,
        base=config.rows, test=config.test_rows, seed=config.seed,
    )  # fmt: skip
    return corpus(table, timm_runs.graphs(), division, config.encoder.layers)


def corpus(runs: Runs, graphs: Graphs, division: Division, steps: int) -> Corpus:
    """Everything from a table of rows and its graphs, for encoders of ``steps`` layers."""
    seen = tuple(sorted(set(runs.graph[division.base].tolist())))
    made = tuple(data_of(compact(graph, steps)) for graph in graphs.graphs)
    scale = Standardise(torch.cat([made[place].x for place in seen]).double().numpy())
    for one in made:
        one.x = scale(one.x)
    totals = np.stack([static_features(graph) for graph in graphs.graphs]).astype(np.float64)
    questions, summaries = tuple(prompts(runs)), tuple(summary(one) for one in graphs.graphs)
    digest = hashlib.sha256()
    for array in (runs.graph, runs.seconds, *division.all, totals):
        digest.update(np.ascontiguousarray(array).tobytes())
    for one in made:
        digest.update(one.x.numpy().tobytes() + one.edge_index.numpy().tobytes())
    digest.update("\n".join((*questions, *summaries)).encode())
    return Corpus(
        runs, division, made, Standardise(totals[list(seen)])(tensor(totals)), summaries,
        questions, seen, digest.hexdigest(),
    )  # fmt: skip
