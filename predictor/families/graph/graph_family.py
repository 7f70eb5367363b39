"""Inference of model graphs behind the Family protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from berth.pilot.platform import Platform
from berth.predictor.core.family import Answer, Bundles, Effect, Explanation, Question
from berth.predictor.core.forecast import SourceShare
from berth.predictor.core.prediction import Bound, Prediction, PredictionCurve
from berth.predictor.core.workload import Workload
from berth.predictor.families.graph.kind import Mode
from berth.predictor.families.graph.latency.bundle import DEFAULT_LATENCY
from berth.predictor.families.graph.latency.bundle import load as load_latency
from berth.predictor.families.graph.latency.transfer.belief import Belief
from berth.predictor.families.graph.latency.transfer.bundle import load as load_transfer
from berth.predictor.families.graph.latency.transfer.serve import with_samples
from berth.predictor.families.graph.model import (
    graph_of,
    is_model,
    model_of,
    places_by_units,
    point,
)
from berth.predictor.families.graph.operators.bundle import DEFAULT_OPERATORS_BUNDLE
from berth.predictor.families.graph.operators.bundle import verify as verify_operators
from berth.predictor.families.graph.times import SOURCES, Source, sources, times
from berth.predictor.footprint.energy import energy
from berth.predictor.footprint.footprint import Task, count, footprint
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import Roofline
from berth.predictor.hardware.roofs import Numbers, Roof, roof_of

LATENCY, OPERATORS, TRANSFER = (
    "berth.model-latency/1",
    "berth.operators-bundle/1",
    "berth.model-transfer/1",
)
Moved = Callable[[list[Roofline], ModelGraph, Mapping[str, Platform]], list[Roofline]]


class GraphFamily:
    """Times of a batch by measured models, operators, a site's samples, and the roofline."""

    name = "graph"

    def __init__(self, bundle: str, used: Sequence[Source], moved: Moved | None) -> None:
        self._bundle = bundle
        self._sources = tuple(used)
        self._moved = moved

    @classmethod
    def load(cls, bundles: Bundles) -> GraphFamily:
        """With a site's bundles in place of the shipped ones of their schema."""
        latency, operators = bundles.get(LATENCY), bundles.get(OPERATORS)
        ids = [
            load_latency(latency or DEFAULT_LATENCY).id,
            verify_operators(operators or DEFAULT_OPERATORS_BUNDLE).id,
        ]
        used = SOURCES if latency is operators is None else sources(latency, operators)
        moved = None
        if TRANSFER in bundles:
            transfer = load_transfer(bundles[TRANSFER])
            ids.append(transfer.id)
            moved = partial(_with_samples, transfer)
        return cls("+".join(ids), used, moved)

    def accepts(self, workload: Workload) -> bool:
        """Model graphs to be run, not trained."""
        return is_model(workload.document, Mode.INFERENCE)

    def forecast(self, question: Question) -> Answer:
        """A curve over cores for CPUs, one point for a GPU or a slice."""
        document = model_of(question)
        graph = graph_of(document)
        numbers = None if document.precision is None else Numbers(document.precision)
        memory = {
            gpu: footprint(count(graph, Task.INFERENCE, on_gpu=gpu, numbers=numbers)).memory
            for gpu in (False, True)
        }
        points: dict[str, list[Prediction]] = {}
        shares = {}
        for units, places in places_by_units(question.platforms, question.known).items():
            for one in self._times(graph, places, question.known, numbers):
                roof = one.roof
                used = energy(one.seconds, roof.power_w, None, one.time_share(Bound.LAUNCH))
                points.setdefault(roof.platform, []).append(
                    point(
                        document.name, roof, units, seconds=one.seconds, basis=one.basis,
                        memory=memory[roof.is_gpu], bound=one.bound,
                        energy_j=None if used is None else used.joules,
                    )
                )  # fmt: skip
                width = math.log(one.seconds.high / one.seconds.mid)
                shares[roof.platform] = (
                    SourceShare(f"{self.name}: {one.source}", 1.0, width, one.note or ""),
                )
        curves = {
            name: PredictionCurve(tuple(sorted(own, key=lambda p: p.gpus or p.cores)))
            for name, own in points.items()
        }
        return Answer(self._bundle, curves, sources=shares)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """The operators that take most of the roofline's time."""
        document = model_of(question)
        graph = graph_of(document)
        numbers = None if document.precision is None else Numbers(document.precision)
        place = roof_of(platform, question.known, platform.cores)
        (one,) = self._times(graph, [place], question.known, numbers)
        whole = sum(spot.seconds for spot in one.spots) or 1.0
        effects = tuple(
            Effect(f"{spot.operator} x {spot.nodes}", spot.seconds / whole)
            for spot in one.spots[:5]
        )
        return Explanation(
            f"{document.name} is {one.bound.value}-bound on {platform.name}; shares are of the "
            "roofline's time.",
            effects,
        )

    def _times(
        self,
        graph: ModelGraph,
        places: Sequence[Roof],
        known: Mapping[str, Platform],
        numbers: Numbers | None,
    ) -> list[Roofline]:
        found = times(graph, places, known, numbers, self._sources)
        return found if self._moved is None else self._moved(found, graph, known)


def _with_samples(
    model: Belief, found: list[Roofline], graph: ModelGraph, known: Mapping[str, Platform]
) -> list[Roofline]:
    return with_samples(found, graph, model, known)
