"""Abstract machine models: one vector for a platform, from embeddings of its benchmark runs.

Dhakal et al., "xAMM: Attention to details improves cross-platform prediction accuracy",
Algorithm 1, option 2 (the L2 norm, the paper's best). Two places of the listing can be read in two
ways. Step 6 has lost its operator: as the text says, the maximum is subtracted. Option 2 is written
for one sample; here the norm is that of each feature over the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from lab.published.networks import apply
from lab.published.xamm.benchmarks import Benchmarks
from lab.published.xamm.embedding import PUBLISHED, Attention, Embedder, Embedding, learn
from lab.published.xamm.samples import Runs, times


def machine_model(embeddings: Floats) -> Floats:
    """Return [width] the vector of a machine from [samples, width] embedded benchmark runs.

    Raises ValueError where there is no sample or a value is not finite.
    """
    if embeddings.ndim != 2 or not len(embeddings) or not np.isfinite(embeddings).all():
        raise ValueError("an abstract machine model needs finite embeddings of one run at least")
    norm = np.sqrt((embeddings**2).sum(axis=0))
    damped = np.log1p(norm)
    return np.asarray(damped - damped.max())


@dataclass(frozen=True, slots=True)
class MachineModels:
    """The embedding of benchmark runs, and what it made of each machine's."""

    embedder: Embedder
    embedded: Mapping[str, Floats]
    """Machine -> samples x width."""

    def vectors(self) -> dict[str, Floats]:
        """Return the abstract machine model of each machine."""
        return {name: machine_model(rows) for name, rows in self.embedded.items()}


def learn_machines(
    benchmarks: Benchmarks,
    labels: Mapping[str, Floats],
    seed: int,
    attention: Attention = PUBLISHED,
) -> MachineModels:
    """Return an embedding of benchmark runs that predicts ``labels``, and all machines through it.

    ``labels``: machine -> its mean log speedup over the reference for each group of training
    workloads (NaN: not known), the relative performance that the paper's attention queries. A
    machine without labels is embedded but nothing is learnt from it. Raises UsageError where no
    machine has both.
    """
    labelled = [name for name in benchmarks.complete() if name in labels]
    if not labelled:
        raise UsageError(
            "no machine has both benchmark data and times",
            hint="give benchmark data of the machines that the profiles are from",
        )
    runs = {name: benchmarks.samples[name] for name in benchmarks.complete()}
    features = np.vstack([runs[name] for name in labelled])
    goals = np.vstack([np.tile(labels[name], (len(runs[name]), 1)) for name in labelled])
    embedder = learn(Embedding.ATTENTION, features, goals, seed, attention)
    return MachineModels(embedder, {name: apply(embedder, each) for name, each in runs.items()})


def mean_speedups(
    log_seconds: Floats, machines: Sequence[str], groups: Sequence[str]
) -> dict[str, Floats]:
    """Return machine -> mean log speedup over the mean machine, for each group of workloads.

    ``log_seconds``: workloads x machines. Relative to the mean of all machines rather than to one,
    so that no machine's labels are all 0. Machines without any time are left out.
    """
    relative = np.nanmean(log_seconds, axis=1, keepdims=True) - log_seconds
    names = np.array(groups)
    rows = []
    for group in sorted(set(groups)):
        part = relative[names == group]
        known = np.isfinite(part)
        total = np.where(known, part, 0).sum(axis=0)
        rows.append(np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan))
    table = np.array(rows).T
    return {name: table[i] for i, name in enumerate(machines) if np.isfinite(table[i]).any()}


def machine_labels(runs: Runs) -> dict[str, Floats]:
    """Return, for ``learn_machines``, mean log speedup of each machine for each application."""
    keys, machines, table = times(runs)
    several = np.isfinite(table).sum(axis=1) > 1
    chosen = [application for (application, _), keep in zip(keys, several, strict=True) if keep]
    return mean_speedups(table[several], machines, chosen) if chosen else {}
