"""Predict inference of model graphs (Family protocol) on CPUs, one GPU, or one copy per GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from berth.pilot.platform import Platform
from berth.predictor.core.family import Bundles, Effect, Explanation, FamilyForecast, Question
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Bound, Interval, Prediction
from berth.predictor.core.workload import Workload
from berth.predictor.families.graph.latency.bundle import DEFAULT_LATENCY
from berth.predictor.families.graph.latency.bundle import load as load_latency
from berth.predictor.families.graph.model import (
    curves_of,
    graph_of,
    is_model,
    of_copies,
    places_by_units,
    point,
)
from berth.predictor.families.graph.operators.bundle import DEFAULT_OPERATORS_BUNDLE
from berth.predictor.families.graph.operators.bundle import verify as verify_operators
from berth.predictor.families.graph.sources import Source, SourceErrors
from berth.predictor.families.graph.times import SOURCES, sources, times
from berth.predictor.families.graph.transfer.bundle import DEFAULT_TRANSFER
from berth.predictor.families.graph.transfer.bundle import verify as verify_transfer
from berth.predictor.families.graph.workload import ModelWorkload, RunMode
from berth.predictor.footprint.energy import energy
from berth.predictor.footprint.footprint import MemoryTask, count, footprint
from berth.predictor.graphs.roofline import Roofline
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import roof_of

LATENCY, OPERATORS, TRANSFER = (
    "berth.model-latency/1",
    "berth.operators-bundle/1",
    "berth.model-transfer/1",
)


class GraphFamily:
    """Predicts inference of model graphs from measured models, operators and similar platforms."""

    name = "graph"

    def __init__(
        self, bundle: str, used: Sequence[Source], errors: SourceErrors | None = None
    ) -> None:
        """Store the bundle id, the sources of times and their held-out errors (default: as
        shipped)."""
        self._bundle = bundle
        self._sources = used
        self._errors = errors

    @classmethod
    def load(cls, bundles: Bundles) -> GraphFamily:
        """Return the family with the site's bundles; the shipped bundle is used where the site has
        none of a schema. Raises DocumentError."""
        latency, operators, transfer = (
            bundles.get(schema) for schema in (LATENCY, OPERATORS, TRANSFER)
        )
        ids = [
            load_latency(latency or DEFAULT_LATENCY).id,
            verify_operators(operators or DEFAULT_OPERATORS_BUNDLE).id,
            verify_transfer(transfer or DEFAULT_TRANSFER).id,
        ]
        has_own_bundles = any(schema is not None for schema in (latency, operators, transfer))
        return cls(
            "+".join(ids), sources(latency, operators, transfer) if has_own_bundles else SOURCES
        )

    def accepts(self, workload: Workload) -> bool:
        """Return whether the workload is the inference of a model graph (not its training)."""
        return is_model(workload.document, RunMode.INFERENCE)

    def forecast(self, question: Question) -> FamilyForecast:
        """Return the predictions for each platform: a curve over cores for a CPU, one point for a
        GPU.

        If the workload requests several GPUs, the point is for one copy of the model per GPU, and
        slices get no prediction.
        """
        document = question.document(ModelWorkload)
        copies = max(1, document.runs_on.gpus)
        graph = graph_of(document)
        numbers = None if document.precision is None else Numbers(document.precision)
        memory = {
            gpu: footprint(count(graph, MemoryTask.INFERENCE, on_gpu=gpu, numbers=numbers)).memory
            for gpu in (False, True)
        }
        points: dict[str, list[Prediction]] = {}
        shares = {}
        for units, places in places_by_units(question.platforms, question.known).items():
            for timed in times(
                graph, places, question.known, numbers, self._sources, errors=self._errors
            ):
                roof, notes = timed.roof, [timed.note] if timed.note else []
                own = _point(document.name, timed, units, memory[roof.is_gpu])
                if roof.is_gpu and copies > 1:
                    if question.platforms[roof.platform].parent is not None:
                        continue
                    own = _of_copies(own, copies)
                    notes.append(f"a copy on each of {copies} GPUs")
                points.setdefault(roof.platform, []).append(own)
                shares[roof.platform] = tuple(
                    replace(
                        share,
                        source=f"{self.name}: {share.source}",
                        situation="; ".join((share.situation, *notes)),
                    )
                    for share in timed.shares
                )
        return FamilyForecast(self._bundle, curves_of(points), sources=shares)

    def explain(self, question: Question, platform: Platform) -> Explanation:
        """Return the bottleneck of a model graph on ``platform``, and the five operators with the
        largest shares of the roofline time."""
        document = question.document(ModelWorkload)
        graph = graph_of(document)
        numbers = None if document.precision is None else Numbers(document.precision)
        place = roof_of(platform, question.known, platform.cores)
        (timed,) = times(
            graph, [place], question.known, numbers, self._sources, errors=self._errors
        )
        whole = sum(spot.seconds for spot in timed.spots) or 1.0
        effects = tuple(
            Effect(f"{spot.operator} x {spot.nodes}", spot.seconds / whole)
            for spot in timed.spots[:5]
        )
        return Explanation(
            f"{document.name} is {timed.bound.value}-bound on {platform.name}; shares are of the "
            "roofline's time.",
            effects,
        )


def _point(workload: str, timed: Roofline, units: int, memory: Interval) -> Prediction:
    use = energy(timed.seconds, timed.roof.power_w, None, timed.time_share(Bound.LAUNCH))
    return point(
        workload, timed.roof, units, seconds=timed.seconds, basis=timed.basis, memory=memory,
        bound=timed.bound, energy_j=None if use is None else use.joules,
    )  # fmt: skip


MOST_COPIES, COPIES_LOG_WIDTH = 16, 0.177
"""Most GPUs of a node that were measured together, and half width in log time of the 90 % interval
of *n* GPUs being *n* times as fast: of 84 pairs of seven accelerators in MLPerf Inference v4.1
(offline), each left out in turn, 98 % are inside and the mean error is 2.5 %."""


def _of_copies(own: Prediction, copies: int) -> Prediction:
    why_not = f"no more than {MOST_COPIES} GPUs were measured together"
    shared = own.runtime_s.scaled(1 / copies)
    return of_copies(
        own,
        copies,
        seconds=around(shared.mid, math.hypot(shared.log_width, COPIES_LOG_WIDTH)),
        memory=own.memory,
        energy_j=own.energy_j,
        why_not=why_not if copies > MOST_COPIES else None,
    )
