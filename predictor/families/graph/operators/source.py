"""The operator sum as a source of a model's latency on platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from berth.pilot.platform import Platform
from berth.predictor.core.prediction import Interval
from berth.predictor.families.graph.operators.predictor import OperatorModel, operator_model
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.roofline import native_numbers
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.unit import Unit, unit_of


def graph_times(
    graph: ModelGraph,
    names: Sequence[str],
    platforms: Mapping[str, Platform],
    numbers: Numbers | None = None,
    model: OperatorModel | None = None,
) -> dict[str, Interval]:
    """Seconds of one run of a graph on those of the named platforms that are GPUs.

    Nothing of the platform need have been measured. Raises DocumentError for a broken bundle.
    """
    places: dict[str, Unit] = {}
    for name in names:
        found = unit_of(platforms[name], platforms) if name in platforms else None
        if found is not None:
            places[name] = found
    if not places:
        return {}
    known = numbers or native_numbers(graph)
    model = model or operator_model()
    seconds = model.graph_seconds(graph, list(places.values()), known)
    return {
        name: model.graph_interval(graph, float(one), known)
        for name, one in zip(places, seconds, strict=True)
    }
