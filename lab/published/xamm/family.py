"""xAMM as a family of relative performance: both models, with AMMs and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.benchmarks import Benchmarks
from berth.predictor.families.relative.rows import Rows
from lab.published.relative_networks.attention import Attention
from lab.published.relative_networks.export import apply
from lab.published.xamm.anchors import signatures
from lab.published.xamm.choices import Choices, Machines
from lab.published.xamm.downstream import train
from lab.published.xamm.embeddings import PUBLISHED, Embedder, learn
from lab.published.xamm.inputs import joined, one_hot
from lab.published.xamm.machines import (
    MachineModels,
    learn_machines,
    mean_speedups,
)
from lab.published.xamm.samples import Samples, samples_of


@dataclass(frozen=True, slots=True)
class FittedXamm:
    """Trained parts of xAMM; the two downstream models share the embedding."""

    choices: Choices
    platforms: tuple[str, ...]
    embedder: Embedder
    machines: MachineModels | None
    vectors: dict[str, Floats]
    """Machine -> what the downstream model is told of it."""
    with_machines: Any
    without_machines: Any

    def log_speedup(self, samples: Samples) -> Floats:
        """Samples x targets; where a machine has no vector, by the model without AMMs."""
        embedded = apply(self.embedder, samples.features)
        count = len(samples.targets)
        blind = self.without_machines.predict(joined(embedded, samples.sources, [""], None))
        found = np.tile(np.asarray(blind, dtype=np.float64)[:, None], (1, count))
        known = [name in self.vectors for name in samples.targets]
        told = [name in self.vectors for name in samples.sources]
        if self.with_machines is not None and any(known) and any(told):
            targets = [name for name, here in zip(samples.targets, known, strict=True) if here]
            sources = [name for name, here in zip(samples.sources, told, strict=True) if here]
            inputs = joined(embedded[told], sources, targets, self.vectors)
            guess = self.with_machines.predict(inputs).reshape(-1, len(targets))
            found[np.ix_(told, known)] = guess
        return found

    def log_seconds(self, rows: Rows) -> Floats:
        """Rows x platforms; a time that is known is given back."""
        samples = samples_of(rows, [rows.reference], self.platforms)
        guess = rows.log_reference[:, None] - self.log_speedup(samples)
        return np.where(np.isfinite(rows.log_seconds), rows.log_seconds, guess)


def fit(
    samples: Samples,
    benchmarks: Benchmarks | None,
    labels: dict[str, Floats],
    choices: Choices,
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
    embedder = learn(choices.embedding, samples.features, samples.log_speedup, seed, attention)
    embedded = apply(embedder, samples.features)
    machines, vectors = None, {}
    if choices.machines is Machines.NAMES:
        vectors = one_hot(sorted({*samples.sources, *samples.targets}))
    elif choices.machines is Machines.AMM and benchmarks is not None:
        machines = learn_machines(benchmarks, labels, seed, attention)
        vectors = machines.vectors(choices.aggregation, choices.scale)
    return FittedXamm(
        choices=choices,
        platforms=samples.targets,
        embedder=embedder,
        machines=machines,
        vectors=vectors,
        with_machines=train(choices.downstream, samples, embedded, vectors, seed)
        if vectors
        else None,
        without_machines=train(choices.downstream, samples, embedded, None, seed),
    )


@dataclass(frozen=True, slots=True)
class XammFamily:
    """Reference's profile -> attention embedding, with AMMs of reference and target, -> speedup."""

    choices: Choices = field(default_factory=Choices)
    benchmarks: Callable[[Rows], Benchmarks] = signatures
    """Benchmark data of every platform, made from nothing but the training rows."""
    attention: Attention = PUBLISHED

    @property
    def name(self) -> str:
        """In tables."""
        c = self.choices
        told = {Machines.AMM: f" + AMM ({c.aggregation})", Machines.NAMES: " + names"}
        return f"xAMM: {c.embedding}{told.get(c.machines, '')}, {c.downstream}"

    @property
    def what(self) -> str:
        """In one line."""
        return f"{self.name}; signatures: anchor kernels among the training rows; Dhakal et al."

    def fit(self, rows: Rows, seed: int) -> FittedXamm:
        """Learn from the rows' reference to every platform; missing labels allowed."""
        samples = samples_of(rows, [rows.reference], rows.platforms)
        benchmarks = self.benchmarks(rows) if self.choices.machines is Machines.AMM else None
        labels = mean_speedups(rows.log_seconds, rows.platforms, rows.applications)
        return fit(samples, benchmarks, labels, self.choices, seed, attention=self.attention)
