"""Predict time, memory and energy of one run of a model on platforms, in one call.

Needs numpy and onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from berth.pilot.errors import UsageError
from berth.pilot.platform import Platform
from berth.predictor.core.prediction import Basis, Bound, Interval
from berth.predictor.families.graph.times import times
from berth.predictor.footprint.energy import RunEnergy, energy
from berth.predictor.footprint.footprint import Footprint, MemoryFit, MemoryTask, count, footprint
from berth.predictor.graphs.front_ends.any_model import graph_of
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.hardware import platforms as catalogue
from berth.predictor.hardware.by_sheet import place_named
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roofs


@dataclass(frozen=True, slots=True)
class ModelPrediction:
    """Predicted time, memory and energy of one run of a model (one batch) on one platform."""

    platform: str
    batch: int
    numbers: Numbers
    runtime_s: Interval
    basis: Basis
    source: str
    """Names of the sources that the time was combined from."""
    note: str | None
    """Why the interval of the time is wide, and what the time does not cover; None: nothing to
    say."""
    memory: Footprint
    fits: MemoryFit
    energy: RunEnergy | None
    """Not verified by measurements; None: the platform's power is unknown."""

    @property
    def samples_per_s(self) -> float:
        """Return the samples per second at this batch."""
        return self.batch / self.runtime_s.mid


def predict(
    model: object,
    *,
    batch: int | None = None,
    platform: str | Sequence[str] | None = None,
    precision: str | None = None,
    sizes: Mapping[str, int] | None = None,
    inputs: Any = None,
) -> tuple[ModelPrediction, ...]:
    """Return the predictions of ``model`` on platforms: where it fits in memory first, then
    fastest.

    ``platform``: a name or several, of platforms or accelerators (default: all known platforms).
    ``model``: a ModelGraph, or any input of ``any_model.graph_of``: the path of an ONNX file or
    of a ``config.json``, a PyTorch module with ``inputs``, a Keras model.
    ``precision``: ``fp32``, ``tf32``, ``fp16``, ``bf16`` or ``fp8`` (default: the model's own).
    Raises DocumentError, UsageError (unknown platform or precision) and ToolMissing.
    """
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int)):
        raise UsageError(f"batch is a whole number, not {batch!r}")
    known = dict(catalogue.load())
    asked = [platform] if isinstance(platform, str) else platform
    numbers = _numbers(precision)
    graph = (
        model if isinstance(model, ModelGraph)
        else graph_of(model, batch=batch, sizes=sizes, inputs=inputs)
    )  # fmt: skip
    if batch is not None and batch != graph.batch:
        raise UsageError(
            f"the graph stands at batch {graph.batch}, not {batch}",
            hint="read it at that batch, or give the file",
        )
    chosen = None if asked is None else [place_named(name, known) for name in asked]
    known = {**known, **{place.name: place for place in chosen or ()}}
    every = roofs(known)
    places = list(every.values())
    if chosen is not None:
        places = [every[name] for name in dict.fromkeys(place.name for place in chosen)]
    memory = {
        gpu: footprint(count(graph, MemoryTask.INFERENCE, on_gpu=gpu, numbers=numbers))
        for gpu in {place.is_gpu for place in places}
    }
    return tuple(
        ModelPrediction(
            timed.roof.platform, graph.batch, timed.numbers, timed.seconds, timed.basis,
            timed.source, timed.note, memory[timed.roof.is_gpu],
            memory[timed.roof.is_gpu].fits(timed.roof.memory_bytes),
            energy(timed.seconds, timed.roof.power_w, _idle(timed.roof, known),
                   timed.time_share(Bound.LAUNCH)),
        )
        for timed in times(graph, places, known, numbers)
    )  # fmt: skip


def _numbers(precision: str | None) -> Numbers | None:
    if precision is None:
        return None
    try:
        return Numbers(precision)
    except ValueError:
        raise UsageError(
            f"there is no precision {precision!r}", hint=", ".join(known.value for known in Numbers)
        ) from None


def _idle(place: Roof, known: Mapping[str, Platform]) -> float | None:
    return known[place.platform].idle_power_w
