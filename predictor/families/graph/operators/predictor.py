"""Predict the seconds of operators on any GPU, and of whole model graphs as their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.core.bundle import regressed
from berth.predictor.core.prediction import Interval
from berth.predictor.families.graph.operators import bundle as bundles
from berth.predictor.families.graph.operators.bundle import (
    DEFAULT_OPERATORS_BUNDLE,
    KINDS,
    Loaded,
    OperatorGroup,
)
from berth.predictor.families.graph.operators.calls import CallKind, Calls, calls_of
from berth.predictor.families.graph.operators.physics import (
    KERNEL_S,
    Places,
    base_seconds,
    product_features,
    utilisation,
    vector_features,
)
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import native_numbers
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import Unit, unit_of

_CONVOLUTION = FAMILIES.index(OpFamily.CONVOLUTION)
_GROUP = np.array([
    next(place for place, group in enumerate(OperatorGroup) if kind in KINDS[group])
    for kind in CallKind
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """Predicts operator times from a loaded bundle; trained in fp32, other precisions use their own
    peak rates."""

    loaded: Loaded

    def seconds(
        self, calls: Calls, gpus: Sequence[Unit], numbers: Numbers = Numbers.FP32,
        *, launch_s: float = KERNEL_S,
    ) -> Floats:  # fmt: skip
        """Return [gpus, n]: seconds of each call on each GPU, including the launch; finite and
        above 0."""
        call_seconds = np.zeros((len(gpus), len(calls)))
        places = Places.of(gpus, numbers, self.loaded.power)
        of_kind = _GROUP[calls.kind]
        for place, group in enumerate(OperatorGroup):
            chosen = np.flatnonzero(of_kind == place)
            if not len(chosen) or not gpus:
                continue
            of = calls[chosen]
            features = (vector_features if group is OperatorGroup.VECTORS else product_features)(
                of, places
            )
            margin = regressed(self.loaded.ensembles[group], features)
            share = utilisation(margin.reshape(len(gpus), len(of)))
            call_seconds[:, chosen] = launch_s + base_seconds(of, places) / share
        return call_seconds

    def graph_seconds(
        self,
        graph: ModelGraph,
        gpus: Sequence[Unit],
        numbers: Numbers | None = None,
        batch: int | None = None,
        *,
        compiled: bool = False,
    ) -> Floats:
        """Return [gpus]: seconds of one run of a graph, the sum over its operators.

        ``batch``: default is the graph's own. ``compiled``: vector operators are fused, as by
        torch.compile.
        """
        known = numbers or native_numbers(graph)
        graph_calls = calls_of(graph, known, batch, compiled=compiled)
        each = self.seconds(graph_calls.calls, gpus, known) + KERNEL_S * graph_calls.waits
        times = graph_calls.times.astype(np.float64)
        total: Floats = np.where(graph_calls.runs, each, 0.0) @ times
        return total

    def graph_interval(
        self, graph: ModelGraph, seconds: float, numbers: Numbers = Numbers.FP32
    ) -> Interval:
        """Return the 90 % interval of a graph's time in seconds, calibrated on whole models on
        held-out GPUs.

        The width is from language models for fp32 graphs without convolutions, and from image
        models for all other graphs.
        """
        constants = self.loaded.constants
        is_language_in_fp32 = numbers is Numbers.FP32 and not (graph.family == _CONVOLUTION).any()
        width = constants.model if is_language_in_fp32 else constants.half
        return Interval(seconds * width.low, seconds, seconds * width.high)


@cache
def operator_model(folder: Path = DEFAULT_OPERATORS_BUNDLE) -> OperatorModel:
    """Return the operator model of a bundle, cached by folder. Raises DocumentError for a broken
    bundle."""
    return OperatorModel(bundles.load(folder))


def graph_times(
    graph: ModelGraph,
    names: Sequence[str],
    platforms: Mapping[str, Platform],
    numbers: Numbers | None = None,
    model: OperatorModel | None = None,
) -> dict[str, Interval]:
    """Return the seconds of one run of a graph by platform, for the named platforms that are GPUs.

    A platform without any measurement is predicted too. Raises DocumentError for a broken bundle.
    """
    places: dict[str, Unit] = {}
    for name in names:
        unit = unit_of(platforms[name], platforms) if name in platforms else None
        if unit is not None:
            places[name] = unit
    if not places:
        return {}
    known = numbers or native_numbers(graph)
    model = model or operator_model()
    seconds = model.graph_seconds(graph, list(places.values()), known)
    return {
        name: model.graph_interval(graph, float(graph_s), known)
        for name, graph_s in zip(places, seconds, strict=True)
    }
