"""Predict the time of a model graph on the platforms that were measured for a bundle.

A model unlike all measured models, or a batch far from the measured batches, gets a wider interval
and a note with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.predictor.core.arrays import Floats
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.families.graph.latency.bundle import (
    DEFAULT_LATENCY,
    LatencyModel,
    LatencySetting,
    load,
)
from berth.predictor.families.graph.latency.features import (
    GraphWork,
    graph_features,
    roof_features,
    work_of,
)
from berth.predictor.families.graph.latency.process import descriptors, terms
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import native_numbers
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof

_REMEMBERED = 512
BATCH_SLACK = 2.0
"""Factor by which a batch may lie beyond the measured batches before it counts as out of range."""


@dataclass(frozen=True, slots=True)
class LearntTime:
    """Predicted time of one run of a graph at its batch on a measured platform."""

    platform: str
    setting: str
    """The software of the measurements, as ``amp | nchw | torch 2.91``."""
    seconds: Interval
    basis: Basis
    note: str | None
    """Why the interval is wide; None: nothing to say."""
    difficulty: float = 0.0
    """Factor on the interval's width that grows with the distance to the models measured on the
    platform; see ``process``."""


class LatencyPredictor:
    """Predicts times from a loaded latency bundle. Safe to share between threads."""

    def __init__(self, model: LatencyModel) -> None:
        self._model = model
        self._answered: BoundedCache[Hashable, tuple[LearntTime, ...]] = BoundedCache(
            _REMEMBERED, by_use=True
        )

    def times(
        self, graph: ModelGraph, places: Sequence[Roof], numbers: Numbers | None = None
    ) -> tuple[LearntTime, ...]:
        """Return predicted times on each of ``places`` that was measured in this precision.

        ``numbers``: default is the graph's own precision. Results are cached by the graph's digest,
        batch, places and precision.
        """
        wanted = numbers or native_numbers(graph)
        key = (graph.digest, graph.batch, wanted, tuple(place.platform for place in places))
        return self._answered.get_or_make(key, lambda: self._times(graph, places, wanted))

    def _times(
        self, graph: ModelGraph, places: Sequence[Roof], numbers: Numbers
    ) -> tuple[LearntTime, ...]:
        by_name = {place.platform: place for place in places}
        chosen = [
            setting
            for setting in self._model.settings
            if setting.entry.usual
            and setting.entry.numbers is numbers
            and setting.entry.platform in by_name
        ]
        if not chosen:
            return ()
        work = work_of(graph)
        features = graph_features(work)[None]
        return tuple(
            self._one(setting, work, features, by_name[setting.entry.platform])
            for setting in chosen
        )

    def _one(
        self, setting: LatencySetting, work: GraphWork, features: Floats, place: Roof
    ) -> LearntTime:
        entry, batch = setting.entry, work.graph.batch
        roof = roof_features(work, [place], [entry.numbers], batch)
        many = np.array([float(batch)])
        learnt = setting.process(terms(features, roof, many), descriptors(features, roof, many))
        difficulty = float(learnt.difficulty[0])
        low, high = entry.batches
        beyond = max(low / batch, batch / high, BATCH_SLACK) / BATCH_SLACK
        width = entry.log_width * difficulty + math.log(beyond)
        notes = []
        if beyond > 1:
            notes.append(f"batch {batch} is far from those measured there ({low} to {high})")
        if unknown := sum(work.graph.unknown.values()):
            notes.append(f"{unknown} operators are unknown, and their work is not in the time")
        guessed = bool(notes)
        if difficulty > self._model.novel:
            notes.insert(0, "unlike every model measured there")
        return LearntTime(
            entry.platform, entry.software,
            around(batch * math.exp(float(learnt.log_seconds[0])), width),
            Basis.PRIOR if guessed else Basis.CALIBRATED, "; ".join(notes) or None, difficulty,
        )  # fmt: skip


@cache
def shared(folder: Path = DEFAULT_LATENCY) -> LatencyPredictor:
    """Return the predictor of a bundle, one per operating-system process. Raises DocumentError."""
    return LatencyPredictor(load(folder))
