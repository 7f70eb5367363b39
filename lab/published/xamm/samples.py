"""Samples: a workload profiled on a source machine, with its speedups on the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from berth.predictor.families.program.ceilings import Floats
from berth.predictor.families.relative.rows import Rows


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
    """Every row on every source that it was run on."""
    features, labels, names, index = [], [], [], []
    columns = [rows.platforms.index(name) for name in targets]
    logs = np.log1p(rows.values)
    for source in sources:
        here = rows.log_seconds[:, rows.platforms.index(source)]
        for i in np.flatnonzero(np.isfinite(here)):
            features.append([*logs[i], here[i]])
            found = here[i] - rows.log_seconds[i, columns]
            found[[name == source for name in targets]] = np.nan
            labels.append(found)
            names.append(source)
            index.append(int(i))
    return Samples(
        features=np.array(features).reshape(len(names), len(rows.counters) + 1),
        sources=tuple(names),
        targets=tuple(targets),
        log_speedup=np.array(labels).reshape(len(names), len(targets)),
        rows=tuple(index),
    )
