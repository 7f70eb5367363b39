"""Where the time of a model graph on a platform comes from: an ordered list of sources.

The first source that has measurements of a platform tells its time. One that must guess there (the
model or the batch is unlike what was measured) gives way to a later one that knows the platform;
the roofline, which knows every platform, is last. Each source is a function of (graph, places,
platforms, numbers) that gives the platforms that it knows; a new one is one more line in
``SOURCES``. Imported when called: numpy, onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.core.prediction import Basis, Interval
from berth.predictor.graphs.cache import Recent
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import Family
from berth.predictor.graphs.roofline import Roofline, load_of, native_numbers, roofline
from berth.predictor.hardware.roofs import Numbers, Roof


@dataclass(frozen=True, slots=True)
class Time:
    """Of one run at the graph's batch."""

    seconds: Interval
    basis: Basis
    source: str
    note: str | None = None


Platforms: TypeAlias = Mapping[str, Platform]
Source: TypeAlias = Callable[
    [ModelGraph, Sequence[Roof], Platforms, Numbers | None], Mapping[str, Time]
]


def learnt(
    graph: ModelGraph,
    places: Sequence[Roof],
    _: Platforms,
    numbers: Numbers | None,
    folder: Path | None = None,
) -> Mapping[str, Time]:
    """Platforms on which image models were measured (``predictor/latency``).

    None of them had recurrent layers, whose steps wait for one another: of those it knows nothing.
    """
    if (graph.family == _RECURRENT).any():
        return {}
    from berth.predictor.families.graph.latency.predictor import shared  # noqa: PLC0415 - when asked

    predictor = shared() if folder is None else shared(folder)
    return {
        one.platform: Time(one.seconds, one.basis, f"measured models ({one.setting})", one.note)
        for one in predictor.times(graph, places, numbers)
    }


def operators(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None,
    folder: Path | None = None,
) -> Mapping[str, Time]:
    """Any GPU, as a sum of operators that were measured on others (``predictor/operators``)."""
    from berth.predictor.families.graph.operators.predictor import operator_model  # noqa: PLC0415 - when asked
    from berth.predictor.families.graph.operators.source import graph_times  # noqa: PLC0415

    names = [place.platform for place in places]
    model = None if folder is None else operator_model(folder)
    return {
        name: Time(seconds, Basis.PRIOR, "operators measured on other GPUs")
        for name, seconds in graph_times(graph, names, platforms, numbers, model).items()
    }


SOURCES: tuple[Source, ...] = (learnt, operators)


def sources(latency: Path | None = None, operator: Path | None = None) -> tuple[Source, ...]:
    """``SOURCES`` with a site's own bundle in place of a shipped one."""
    return partial(learnt, folder=latency), partial(operators, folder=operator)


_MANY_CORES = "learnt on one core, and with all of a CPU's small batches took twice as long"
_RECURRENT = FAMILIES.index(Family.RECURRENT)
_EIGHT_BIT = ("QLinear", "Integer", "QuantizeLinear", "QAttention", "QGemm", "NBits")
_TOLD: Recent[list[Roofline]] = Recent(64)


def times(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None = None,
    sources: Sequence[Source] = SOURCES,
) -> list[Roofline]:
    """The model on each place by the first source that knows it: those where it fits first,
    fastest first. Raises DocumentError for a broken bundle.

    With the usual sources remembered by the graph's hash, its batch, and what places can do.
    """
    if sources is not SOURCES:
        return _times(graph, places, platforms, numbers, sources)
    key = (graph.digest, graph.batch, numbers, tuple(map(_identity, places)))
    return list(_TOLD.made(key, lambda: _times(graph, places, platforms, numbers, sources)))


def _identity(place: Roof) -> tuple[object, ...]:
    """All of a roof but its tables, which follow from the platform's name and these."""
    return (
        place.platform, place.vector_flops, place.dram_bytes, place.l2_bytes, place.l2_capacity,
        place.launch_s, place.memory_bytes, place.price_per_hour, place.power_w,
        place.matrix_flops[Numbers.FP16],
    )  # fmt: skip


def _times(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None,
    sources: Sequence[Source],
) -> list[Roofline]:
    told: dict[str, Time] = {}
    for source in sources:
        left = [
            place for place in places
            if place.platform not in told or told[place.platform].basis is Basis.PRIOR
        ]  # fmt: skip
        if left:
            told.update(source(graph, left, platforms, numbers))
    found = []
    known = numbers or native_numbers(graph)
    load = load_of(graph, known)
    doubts = _doubts(graph)
    for place in places:
        one = roofline(graph, place, known, load)
        time = told.get(place.platform)
        if time is not None:
            one = replace(
                one, seconds=time.seconds, basis=time.basis, source=time.source, note=time.note
            )
        here = doubts if time or place.is_gpu or platforms[place.platform].cores == 1 else [
            *doubts, _MANY_CORES,
        ]  # fmt: skip
        if here:
            notes = [*(one.note.split("; ") if one.note else ()), *here]
            one = replace(one, basis=Basis.PRIOR, note="; ".join(dict.fromkeys(notes)))
        found.append(one)
    return sorted(found, key=lambda one: (not one.fits, one.seconds.mid, one.roof.platform))


def _doubts(graph: ModelGraph) -> list[str]:
    """What no source has measured the like of, so that no interval covers it."""
    doubts = []
    if unknown := sum(graph.unknown.values()):
        doubts.append(f"{unknown} operators are unknown, and their work is not in the time")
    if recurrent := int((graph.family == _RECURRENT).sum()):
        doubts.append(f"{recurrent} recurrent layers, of which none was measured, told by steps")
    names = np.array([_eight_bit(name) for name in graph.operators], bool)
    if eight := int(names[graph.operator].sum()) if len(names) else 0:
        doubts.append(f"{eight} quantised operators, of which none was measured, taken as floats")
    return doubts


def _eight_bit(operator: str) -> bool:
    return any(part in operator for part in _EIGHT_BIT)
