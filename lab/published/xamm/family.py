"""xAMM as a family of relative performance: both downstream models, with AMMs and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.ground.onnx_export import agreement
from lab.published.networks import TOLERANCE, apply
from lab.published.xamm.benchmarks import Benchmarks, signatures
from lab.published.xamm.embedding import PUBLISHED, Attention, Embedder, Embedding, learn
from lab.published.xamm.machine_models import learn_machines, mean_speedups
from lab.published.xamm.one_graph import network_onnx, one_graph, trees_onnx
from lab.published.xamm.samples import Samples, joined, samples_of


def regressor(seed: int) -> xgboost.XGBRegressor:
    """Return untrained trees with their library's defaults, on one thread."""
    # "hist" splits at training values themselves: a machine's vector that ONNX makes 1e-7 apart
    # would fall on the other side. "exact" splits half-way between two values.
    return xgboost.XGBRegressor(random_state=seed, n_jobs=1, tree_method="exact")


def train_trees(
    samples: Samples,
    embedded: Floats,
    vectors: Mapping[str, Floats] | None,
    seed: int,
) -> Any:
    """Learn log speedups from equation 3; pairs without a label, or a vector, are left out.

    None where nothing is left.
    """
    known = np.isfinite(samples.log_speedup)
    sources, targets = np.array(samples.sources), samples.targets
    if vectors is not None:
        known = known & np.isin(targets, list(vectors))[None, :]
        known = known & np.isin(sources, list(vectors))[:, None]
        blank = np.zeros_like(next(iter(vectors.values())))
        vectors = {**dict.fromkeys({*targets, *sources}, blank), **vectors}
    inputs = joined(embedded, samples.sources, targets, vectors)[known.ravel()]
    if not len(inputs):
        return None
    model = regressor(seed)
    model.fit(inputs, samples.log_speedup[known])
    return model


LIBRARIES = ("torch", "xgboost-cpu", "numpy")


@dataclass(frozen=True, slots=True)
class FittedXamm:
    """Trained parts of xAMM; the two downstream models share the embedding."""

    platforms: tuple[str, ...]
    embedder: Embedder
    vectors: dict[str, Floats]
    """Machine -> what the downstream model sees of it."""
    with_machines: Any
    without_machines: Any

    def log_speedup(self, samples: Samples) -> Floats:
        """Return samples x targets; where a machine has no vector, by the model without AMMs."""
        embedded = apply(self.embedder, samples.features)
        count = len(samples.targets)
        blind = self.without_machines.predict(joined(embedded, samples.sources, [""], None))
        found = np.tile(np.asarray(blind, dtype=np.float64)[:, None], (1, count))
        at, to = (
            [i for i, name in enumerate(names) if name in self.vectors]
            for names in (samples.sources, samples.targets)
        )
        if self.with_machines is not None and at and to:
            sources, targets = [samples.sources[i] for i in at], [samples.targets[i] for i in to]
            inputs = joined(embedded[at], sources, targets, self.vectors)
            found[np.ix_(at, to)] = self.with_machines.predict(inputs).reshape(-1, len(to))
        return found

    def log_seconds(self, rows: Rows) -> Floats:
        """Return rows x platforms; a time that is known is given back."""
        samples = samples_of(rows, [rows.reference], self.platforms)
        guess = rows.log_reference[:, None] - self.log_speedup(samples)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)

    def onnx(self, rows: Rows) -> bytes:
        """Return log features -> log speedups over the rows' reference, as one graph.

        Raises BerthError where it differs from the parts by more than 1e-4 on ``rows``.
        """
        samples = samples_of(rows, [rows.reference], self.platforms)
        trees, beside = None, np.full((len(self.platforms), 0), np.nan)
        if rows.reference in self.vectors and self.with_machines is not None:
            here = self.vectors[rows.reference]
            missing = np.full_like(here, np.nan)
            beside = np.array(
                [[*here, *self.vectors.get(name, missing)] for name in self.platforms]
            )
            trees = self.trees_onnx(samples)
        raw = one_graph(
            network_onnx(self.embedder, samples.features), self.blind_onnx(samples), trees, beside
        )
        agreement(
            raw, {"features": samples.features.astype(np.float32)}, self.log_speedup(samples),
            TOLERANCE,
        )  # fmt: skip
        return raw

    def blind_onnx(self, samples: Samples) -> bytes:
        """Return the model without AMMs, proved on the samples."""
        return trees_onnx(self.without_machines, apply(self.embedder, samples.features))

    def trees_onnx(self, samples: Samples) -> bytes:
        """Return the model with AMMs, proved on the samples whose machines have one."""
        at = [i for i, name in enumerate(samples.sources) if name in self.vectors]
        targets = [name for name in samples.targets if name in self.vectors]
        embedded = apply(self.embedder, samples.features)[at]
        sources = [samples.sources[i] for i in at]
        return trees_onnx(self.with_machines, joined(embedded, sources, targets, self.vectors))


def fit(
    samples: Samples,
    benchmarks: Benchmarks | None,
    labels: dict[str, Floats],
    embedding: Embedding,
    seed: int,
    *,
    attention: Attention = PUBLISHED,
) -> FittedXamm:
    """Learn the embedding, the machine models and both downstream models.

    ``labels``: see ``learn_machines``. Raises UsageError where no speedup is known.
    """
    if not np.isfinite(samples.log_speedup).any():
        raise UsageError(
            "no speedup is known: each workload was measured on one machine only",
            hint="give times of the same workloads on a second machine",
        )
    embedder = learn(embedding, samples.features, samples.log_speedup, seed, attention)
    embedded = apply(embedder, samples.features)
    vectors: dict[str, Floats] = {}
    if benchmarks is not None:
        vectors = learn_machines(benchmarks, labels, seed, attention).vectors()
    return FittedXamm(
        platforms=samples.targets,
        embedder=embedder,
        vectors=vectors,
        with_machines=train_trees(samples, embedded, vectors, seed) if vectors else None,
        without_machines=train_trees(samples, embedded, None, seed),
    )


@dataclass(frozen=True, slots=True)
class XammFamily:
    """Reference's profile -> attention embedding, with AMMs of reference and target, -> speedup."""

    embedding: Embedding = Embedding.ATTENTION
    benchmarks: Callable[[Rows], Benchmarks | None] = signatures
    """Benchmark data of every platform, from nothing but the training rows; None: no AMMs."""
    attention: Attention = PUBLISHED
    libraries: tuple[str, ...] = LIBRARIES

    @property
    def name(self) -> str:
        """Return the name in tables."""
        return f"xAMM: {self.embedding} + AMM (l2), xgboost"

    @property
    def what(self) -> str:
        """Return what it is in one line."""
        return f"{self.name}; Dhakal et al."

    def fit(self, rows: Rows, seed: int) -> FittedXamm:
        """Learn from the rows' reference to every platform; missing labels allowed."""
        samples = samples_of(rows, [rows.reference], rows.platforms)
        labels = mean_speedups(rows.log_seconds, rows.platforms, rows.applications)
        return fit(
            samples, self.benchmarks(rows), labels, self.embedding, seed, attention=self.attention
        )


FAMILIES = (XammFamily(), XammFamily(embedding=Embedding.RAW))
"""Evaluated beside the other families: as published, and its AMMs without its attention."""
