"""How far the summing network, and all sources with it, are off on models that it never saw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from berth.predictor.families.graph.source_errors import (
    COMBINED,
    NETWORK,
    SourceError,
    shipped,
)
from berth.predictor.learning.resume import Resume
from lab.ground.evaluate import Family, held_out
from lab.ground.table import Floats
from lab.latency import combination
from lab.latency.held_out_sources import KNOWN, SourceTimes, on_known_device
from lab.latency.timm_runs import Runs
from lab.published.graph_networks.evaluate_networks import by_network
from lab.published.graph_networks.fit_network import Training
from lab.published.graph_networks.network_bundle import SHAPE

STEPS = 2 * sum(split.count or 0 for split in KNOWN.values())


def network_errors(
    rows: Runs,
    training: Training,
    *,
    seed: int,
    resume: Resume | None = None,
    advance: Callable[..., None] = lambda *_: None,
) -> tuple[SourceError, ...]:
    """In each situation of a known device, by folds of architectures and of families.

    ``rows``: all of inference (``timm_runs.runs``).
    """

    def predict(train: Runs, test: Runs, seed: int) -> Floats:
        found, known = np.full(len(test), np.nan), test.has_graph
        learnt = train[train.has_graph]
        found[known] = by_network(learnt, test[known], seed, shape=SHAPE, training=training)
        return found

    network, none, times = Family("graph network", predict), np.full(len(rows), np.nan), []
    for situation, split in KNOWN.items():
        held = held_out(
            network, rows, split.folds(rows, seed), seed=seed, resume=resume,
            key=f"{situation}/{training}", advance=advance,
        )  # fmt: skip
        by_row = none.copy()
        by_row[held.rows] = held.log_predicted
        times.append(on_known_device(situation, none, seed, advance, by_row))
    made = combination.evaluate(SourceTimes.joined(times), above=shipped().unlike_above)
    return tuple(one for one in made.errors if one.source in (NETWORK, COMBINED))
