"""Abstract machine models: benchmark runs embedded by attention, then aggregated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.errors import UsageError
from berth.predictor.core.arrays import Floats
from lab.published.relative_networks.attention import Attention
from lab.published.relative_networks.export import apply
from lab.published.xamm.benchmarks import Benchmarks
from lab.published.xamm.choices import Embedding
from lab.published.xamm.embeddings import PUBLISHED, Embedder, learn
from lab.published.xamm.machine_model import Aggregation, Scale, machine_model
from lab.published.xamm.machine_tables import Runs
from lab.published.xamm.samples import times


@dataclass(frozen=True, slots=True)
class MachineModels:
    """The embedding of benchmark runs, and what it made of each machine's."""

    embedder: Embedder
    embedded: Mapping[str, Floats]
    """Machine -> samples x width."""

    def vectors(self, aggregation: Aggregation, scale: Scale) -> dict[str, Floats]:
        """Machine -> its abstract machine model."""
        return {
            name: machine_model(rows, aggregation, scale) for name, rows in self.embedded.items()
        }


def learn_machines(
    benchmarks: Benchmarks,
    labels: Mapping[str, Floats],
    seed: int,
    attention: Attention = PUBLISHED,
) -> MachineModels:
    """An embedding of benchmark runs that predicts ``labels``, and all machines through it.

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
    """Machine -> mean log speedup over the mean machine, for each group of workloads.

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
    """For ``learn_machines``: mean log speedup of each machine for each application."""
    keys, machines, table = times(runs)
    several = np.isfinite(table).sum(axis=1) > 1
    chosen = [application for (application, _), keep in zip(keys, several, strict=True) if keep]
    return mean_speedups(table[several], machines, chosen) if chosen else {}
