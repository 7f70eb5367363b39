"""A graph network as a source of a model graph's time, on the devices that it was trained on.

The network reads a graph of one image and the batch beside it; a graph of another batch is taken
back to one first. How far it was off on unseen models and families is in its manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from berth.predictor.families.graph.latency.graph_network_bundle import (
    NetworkBundle,
    RunSetting,
    load,
)
from berth.predictor.families.graph.latency.predictor import BATCH_SLACK
from berth.predictor.graphs.graph import Integers, ModelGraph
from berth.predictor.graphs.kinds import COLUMNS
from berth.predictor.hardware.roofs import Numbers

_AT = {name: place for place, name in enumerate(COLUMNS)}
_EACH = ("macs", "flops", "input_bytes", "output_bytes")
"""What grows with the batch."""
_IMAGE_RANK = 4
USUAL_SIZE = 224


@dataclass(frozen=True, slots=True)
class NetworkTime:
    """Of one run at the graph's batch."""

    seconds: float
    setting: str
    beyond: float
    """How many times the batch is beyond what counts as in range; 1: inside."""


def network_times(
    graph: ModelGraph, platforms: Collection[str], numbers: Numbers, folder: Path
) -> Mapping[str, NetworkTime]:
    """On those of ``platforms`` that the bundle knows in this precision.

    Nowhere where the bundle does not say how far it is off. Raises DocumentError.
    """
    network = shared(folder)
    places = [
        one
        for one in network.manifest.places
        if one.platform in platforms and one.numbers is numbers
    ]
    if not places or not network.manifest.errors:
        return {}
    alone, size = of_one(graph), image_size(graph)
    asked = [
        RunSetting(
            one.device, one.precision, graph.batch, size, one.torch, one.cuda,
            one.compiled, one.channels_last,
        )
        for one in places
    ]  # fmt: skip
    found = network.seconds(alone, asked)
    return {
        one.platform: NetworkTime(
            graph.batch * float(seconds), one.precision,
            max(one.batches[0] / graph.batch, graph.batch / one.batches[1], BATCH_SLACK)
            / BATCH_SLACK,
        )
        for one, seconds in zip(places, found, strict=True)
    }  # fmt: skip


def of_one(graph: ModelGraph) -> ModelGraph:
    """The graph at batch 1: work, activations and leading sizes of whatever the batch runs
    through, divided by it."""
    batch = graph.batch
    if batch <= 1:
        return graph
    kinds = graph.kinds.copy()
    scaled = (kinds[:, _AT["output_0"]] >= batch) & (kinds[:, _AT["output_0"]] % batch == 0)
    rows: Integers = kinds[scaled]
    bare = _moved_with_weights(rows) * rows[:, _AT["weight_bytes"]]
    for name in _EACH:
        rows[:, _AT[name]] //= batch
    moved = _AT["moved_bytes"]
    rows[:, moved] = (rows[:, moved] - bare) // batch + bare
    for name in ("input_0", "output_0"):
        sizes = rows[:, _AT[name]]
        rows[:, _AT[name]] = sizes // batch * (sizes % batch == 0) + sizes * (sizes % batch != 0)
    kinds[scaled] = rows
    return replace(graph, batch=1, kinds=kinds)


def _moved_with_weights(rows: Integers) -> Integers:
    """[rows] 1 where weights are among the bytes that are moved."""
    whole = sum(rows[:, _AT[name]] for name in ("input_bytes", "weight_bytes", "output_bytes"))
    found: Integers = (rows[:, _AT["moved_bytes"]] == whole).astype(rows.dtype)
    return found


def image_size(graph: ModelGraph) -> int:
    """Longest side of the first image input; the usual 224 where there is none."""
    images = (port.shape[2:] for port in graph.inputs if len(port.shape) == _IMAGE_RANK)
    return max(next(images, ()), default=USUAL_SIZE)


@cache
def shared(folder: Path) -> NetworkBundle:
    """One a process and bundle. Raises DocumentError."""
    return load(folder)
