"""Predict the time of a model graph on platforms by combining all sources that can answer.

A source is a function of (graph, places, platforms, numbers) that returns predicted times on the
platforms that it covers. ``source_errors.json`` holds the error of each source on held-out data, by
situation (``sources``); ``core.combine`` weights the sources by these errors. The roofline covers
every platform and is used alone where no other source answers. Needs numpy and onnxruntime.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from berth.pilot.bounded import BoundedCache
from berth.predictor.core.combine import SourceEstimate, combine, ordered
from berth.predictor.core.intervals import around
from berth.predictor.core.prediction import Basis
from berth.predictor.families.graph.between_gpus import ANCHOR, related
from berth.predictor.families.graph.latency.predictor import shared as shared_latency
from berth.predictor.families.graph.operators.predictor import graph_times, operator_model
from berth.predictor.families.graph.sources import (
    COMBINED,
    IMAGES_IN_HALF,
    LANGUAGE_IN_FP32,
    MEASURED,
    NEW_CPU,
    OPERATORS,
    ROOFLINE,
    TRANSFER,
    Platforms,
    Source,
    SourceErrors,
    Time,
    corrected,
    known_device,
    shipped_errors,
    with_runs,
)
from berth.predictor.families.graph.transfer.predictor import transferred
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.operators import OpFamily
from berth.predictor.graphs.roofline import Roofline, load_of, native_numbers, roofline
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.dominance import better_pairs
from berth.predictor.hardware.platforms import shipped
from berth.predictor.hardware.roofs import Roof, roofs


def learnt(
    graph: ModelGraph,
    places: Sequence[Roof],
    _: Platforms,
    numbers: Numbers | None,
    folder: Path | None = None,
) -> Mapping[str, Sequence[Time]]:
    """Return times on platforms where image models were measured, by the learnt process
    (``latency``).

    No measured model had recurrent layers, so a graph with recurrent layers gets no times.
    """
    if (graph.family == _RECURRENT).any():
        return {}
    predictor = shared_latency() if folder is None else shared_latency(folder)
    above = shipped_errors().unlike_above
    return {
        learnt_time.platform: [Time(
            learnt_time.seconds, learnt_time.basis, MEASURED, learnt_time.note, learnt_time.setting,
            unlike=learnt_time.difficulty > above, guessed=learnt_time.basis is Basis.PRIOR,
        )]
        for learnt_time in predictor.times(graph, places, numbers)
    }  # fmt: skip


def operators(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None,
    folder: Path | None = None,
) -> Mapping[str, Sequence[Time]]:
    """Return times on any GPU, as the sum of operator times learnt on other GPUs
    (``operators``)."""

    names = [place.platform for place in places]
    model = None if folder is None else operator_model(folder)
    return {
        name: [Time(seconds, Basis.PRIOR, OPERATORS)]
        for name, seconds in graph_times(graph, names, platforms, numbers, model).items()
    }


def transfer(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None,
    folder: Path | None = None,
) -> Mapping[str, Sequence[Time]]:
    """Return times on any platform, from image models measured on other platforms and from the
    site's own runs (``transfer``).

    GPUs were measured in half precision only, CPUs in fp32. A graph with recurrent layers gets no
    times.
    """
    if (graph.family == _RECURRENT).any():
        return {}
    return transferred(graph, places, platforms, numbers or native_numbers(graph), folder)


SOURCES: tuple[Source, ...] = (learnt, operators, transfer)


def sources(
    latency: Path | None = None,
    operator: Path | None = None,
    transferred: Path | None = None,
) -> tuple[Source, ...]:
    """Return the functions of ``SOURCES``, reading the site's own bundle folders; None: the shipped
    bundle."""
    return (
        partial(learnt, folder=latency), partial(operators, folder=operator),
        partial(transfer, folder=transferred),
    )  # fmt: skip


_MANY_CORES = "fitted on one core; multi-core errors reach 2x"
_RECURRENT = FAMILIES.index(OpFamily.RECURRENT)
_CONVOLUTION = FAMILIES.index(OpFamily.CONVOLUTION)
_EIGHT_BIT = ("QLinear", "Integer", "QuantizeLinear", "QAttention", "QGemm", "NBits")
_HALF = (Numbers.FP16, Numbers.BF16)
_ANSWERS: BoundedCache[Hashable, list[Roofline]] = BoundedCache(64, by_use=True)


def times(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None = None,
    sources: Sequence[Source] = SOURCES,
    *,
    errors: SourceErrors | None = None,
) -> list[Roofline]:
    """Return the predicted time of the graph on each of ``places``, combined from all sources.

    Places where the model fits in memory come first, then the fastest. ``numbers``: the precision
    (default: the graph's own). ``errors``: held-out errors of the sources (default: as shipped). A
    GPU or slice that is at least as good in every respect as another one of ``platforms`` is never
    predicted slower, whichever places are requested. Results with the shipped sources are cached by
    the graph's hash, batch, precision and the data of the places. Raises DocumentError for a broken
    bundle.
    """
    known = errors or shipped_errors()
    if sources is not SOURCES:
        return _times(graph, places, platforms, numbers, sources, errors=known)
    key = (graph.digest, graph.batch, numbers, tuple(map(_identity, places)))
    compute = partial(_times, graph, places, platforms, numbers, sources, errors=known)
    return list(_ANSWERS.get_or_make(key, compute))


def _identity(place: Roof) -> tuple[object, ...]:
    """Return the cache key of a roof: its name and rates, without the tables that follow from
    them."""
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
    *,
    errors: SourceErrors,
) -> list[Roofline]:
    computed_in = numbers or native_numbers(graph)
    asked = {place.platform for place in places}
    if ANCHOR not in platforms:
        platforms = {**platforms, ANCHOR: shipped()[ANCHOR]}
    gpus = [
        roof for roof in roofs(platforms).values() if roof.is_gpu and roof.platform not in asked
    ]
    every = [*places, *(gpus if any(place.is_gpu for place in places) else [])]
    timed = _each(graph, every, platforms, numbers, sources, errors=errors)
    if computed_in in _HALF:
        timed = related(graph, timed, platforms)
    own = ordered(
        {roof.roof.platform: roof.seconds for roof in timed if roof.roof.is_gpu},
        better_pairs([roof.roof for roof in timed], platforms, computed_in),
    )
    timed = [
        replace(roof, seconds=own.get(roof.roof.platform, roof.seconds))
        for roof in timed if roof.roof.platform in asked
    ]  # fmt: skip
    return sorted(timed, key=lambda roof: (not roof.fits, roof.seconds.mid, roof.roof.platform))


def _each(
    graph: ModelGraph,
    places: Sequence[Roof],
    platforms: Platforms,
    numbers: Numbers | None,
    sources: Sequence[Source],
    *,
    errors: SourceErrors,
) -> list[Roofline]:
    answers: dict[str, list[Time]] = {}
    for source in sources:
        for name, source_times in source(graph, places, platforms, numbers).items():
            answers.setdefault(name, []).extend(source_times)
    computed_in = numbers or native_numbers(graph)
    load = load_of(graph, computed_in)
    doubts = _doubts(graph)
    timed = []
    for place in places:
        bare = roofline(graph, place, computed_in, load)
        combined = _combined(bare, answers.get(place.platform, []), errors)
        place_doubts = doubts
        if combined.source == ROOFLINE and not place.is_gpu and platforms[place.platform].cores > 1:
            place_doubts = [*doubts, _MANY_CORES]
        notes = [*(combined.note.split("; ") if combined.note else ()), *place_doubts]
        guessed = bool(place_doubts) or place.parent is not None
        timed.append(replace(
            combined, basis=Basis.PRIOR if guessed else combined.basis,
            note="; ".join(dict.fromkeys(notes)) or None,
        ))  # fmt: skip
    return timed


def _combined(bare: Roofline, answers: Sequence[Time], errors: SourceErrors) -> Roofline:
    """Return the roofline of one place with its time replaced by the combination of all answers,
    weighted by their held-out errors; without answers, with the time of the roofline alone."""
    situation = _situation(bare, answers)
    known_times = answers or [Time(bare.seconds, Basis.PRIOR, ROOFLINE)]
    estimates = [
        estimate
        for answer in known_times
        if (estimate := _estimate(answer, situation, errors)) is not None
    ]
    if not estimates:
        best = min(known_times, key=lambda estimate: estimate.basis.rank)
        estimates = [SourceEstimate(best.label, best.seconds, best.basis, "no held-out error")]
        answers = [estimate for estimate in answers if estimate.source == best.source]
    combination = combine(estimates)
    together = errors.of(COMBINED, situation)
    seconds, basis = combination.seconds, combination.basis
    if together is not None:
        seconds = corrected(seconds, together)
        guessed = any(estimate.guessed for estimate in answers) or not _covered(bare, situation)
        if guessed:
            basis = Basis.PRIOR
        elif together.dependable:
            basis = Basis.CALIBRATED
    used = [share.source for share in combination.shares]
    notes = [answer.note for answer in answers if answer.note and answer.label in used]
    return replace(
        bare, seconds=seconds, basis=basis, shares=combination.shares,
        source=" and ".join(used),
        note="; ".join(dict.fromkeys(notes)) or None,
    )  # fmt: skip


def _situation(bare: Roofline, answers: Sequence[Time]) -> str:
    gpu = bare.roof.is_gpu
    models = max((answer.models for answer in answers), default=0)
    measured = [answer for answer in answers if answer.source == MEASURED and not answer.guessed]
    if measured:
        return known_device(unlike=any(answer.unlike for answer in measured))
    if models:
        return with_runs(models, gpu=gpu)
    if not gpu:
        return NEW_CPU
    plain = bare.numbers is Numbers.FP32 and not _is_image_model(bare)
    return LANGUAGE_IN_FP32 if plain else IMAGES_IN_HALF


def _is_image_model(bare: Roofline) -> bool:
    return bool((bare.graph.family == _CONVOLUTION).any())


def _covered(bare: Roofline, situation: str) -> bool:
    """Return whether the errors of a situation come from models of this type and precision."""
    if situation == IMAGES_IN_HALF:
        return bare.numbers in _HALF and _is_image_model(bare)
    return True


def _estimate(answer: Time, situation: str, errors: SourceErrors) -> SourceEstimate | None:
    error = errors.of(answer.source, situation)
    if error is None:
        return None
    seconds = corrected(answer.seconds, error)
    width = seconds.log_width
    if answer.models and answer.source == TRANSFER:
        width = max(width, answer.seconds.log_width)
    seconds = around(seconds.mid, width + answer.beyond)
    return SourceEstimate(answer.label, seconds, answer.basis, situation)


def _doubts(graph: ModelGraph) -> list[str]:
    """Return a note for each feature of the graph that no source measured, so no interval covers
    it: unknown, recurrent and quantised operators."""
    doubts = []
    if unknown := sum(graph.unknown.values()):
        doubts.append(f"{unknown} operators are unknown, and their work is not in the time")
    if recurrent := int((graph.family == _RECURRENT).sum()):
        doubts.append(f"{recurrent} recurrent layers, of which none was measured, by their steps")
    names = np.array([_eight_bit(name) for name in graph.operators], bool)
    if eight := int(names[graph.operator].sum()) if len(names) else 0:
        doubts.append(f"{eight} quantised operators, of which none was measured, taken as floats")
    return doubts


def _eight_bit(operator: str) -> bool:
    return any(part in operator for part in _EIGHT_BIT)
