"""Samples: a workload profiled on a source machine, with its speedups on the targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
from lab.published.xamm.machine_tables import Runs


@dataclass(frozen=True, slots=True)
class Samples:
    """One row a (workload, source) that was run there."""

    features: Floats
    """Samples x (counters + 1): log(1 + counter), and the log of the time on the source."""
    sources: tuple[str, ...]
    """One a sample."""
    targets: tuple[str, ...]
    log_speedup: Floats
    """Samples x targets: log(t_source / t_target); NaN: not known, or the source itself."""
    rows: tuple[int, ...]
    """Index of the workload of each sample."""

    def __len__(self) -> int:
        return len(self.features)


def samples_of(rows: Rows, sources: Sequence[str], targets: Sequence[str]) -> Samples:
    """Return every row on every source that it was run on."""
    places = [
        (source, column, int(row))
        for source in sources
        for column in [rows.platforms.index(source)]
        for row in np.flatnonzero(np.isfinite(rows.log_seconds[:, column]))
    ]
    index = [row for _, _, row in places]
    here = rows.log_seconds[index, [column for _, column, _ in places]]
    columns = [rows.platforms.index(name) for name in targets]
    return _samples(
        values=rows.values[index],
        here=here,
        sources=[source for source, _, _ in places],
        targets=tuple(targets),
        table=rows.log_seconds[:, columns],
        index=index,
    )


def samples_of_runs(runs: Runs) -> Samples:
    """Return every run is a sample on its machine; its targets are all machines.

    The counters of a workload may differ from machine to machine here.
    """
    keys, machines, table = times(runs)
    place = {key: i for i, key in enumerate(keys)}
    index = [place[key] for key in zip(runs.applications, runs.configurations, strict=True)]
    return _samples(
        values=runs.values,
        here=np.log(runs.seconds),
        sources=runs.machines,
        targets=machines,
        table=table,
        index=index,
    )


def times(runs: Runs) -> tuple[list[tuple[str, str]], tuple[str, ...], Floats]:
    """Workloads (application, configuration), machines, and log seconds of each pair."""
    machines = tuple(sorted(set(runs.machines)))
    keys = sorted(set(zip(runs.applications, runs.configurations, strict=True)))
    table = np.full((len(keys), len(machines)), np.nan)
    place = {key: i for i, key in enumerate(keys)}
    for a, c, m, seconds in zip(
        runs.applications, runs.configurations, runs.machines, runs.seconds, strict=True
    ):
        table[place[a, c], machines.index(m)] = np.log(seconds)
    return keys, machines, table


def _samples(
    *,
    values: Floats,
    here: Floats,
    sources: Sequence[str],
    targets: tuple[str, ...],
    table: Floats,
    index: Sequence[int],
) -> Samples:
    own = np.array(sources)[:, None] == np.array(targets)[None, :]
    return Samples(
        features=np.column_stack([np.log1p(values), here]),
        sources=tuple(sources),
        targets=targets,
        log_speedup=np.where(own, np.nan, here[:, None] - table[list(index)]),
        rows=tuple(index),
    )


def joined(
    embedded: Floats,
    sources: Sequence[str],
    targets: Sequence[str],
    machines: Mapping[str, Floats] | None,
) -> Floats:
    """Equation 3: embedding of the sample, AMM of the source, AMM of the target, side by side.

    (Samples x targets) x inputs, samples first; without ``machines`` the embedding alone.
    """
    repeated = np.repeat(embedded, len(targets), axis=0)
    if machines is None:
        return repeated
    here = np.repeat(np.array([machines[name] for name in sources]), len(targets), axis=0)
    there = np.tile(np.array([machines[name] for name in targets]), (len(embedded), 1))
    return np.hstack([repeated, here, there])


def one_hot(machines: Sequence[str]) -> dict[str, Floats]:
    """Return names as vectors."""
    return dict(zip(machines, np.eye(len(machines)), strict=True))
