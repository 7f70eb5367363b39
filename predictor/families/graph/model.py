"""Convert a model file to a workload, and build the predictions of the model-graph families.

The workload holds the graph of the model without its weights. The families of inference and of
training share the functions of this module that read the graph, list the roofs (peak rates of a
platform) to predict at, and build the points of a prediction curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from berth.pilot.platform import Platform
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.workload import Amount
from berth.predictor.families.graph.workload import (
    ANY_DEVICE,
    ModelWorkload,
    RunMode,
    check_trained_in,
    plain_name,
)
from berth.predictor.graphs.front_ends.any_model import of_path
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.stored import from_lines, to_lines
from berth.predictor.hardware.ceilings import core_grid
from berth.predictor.hardware.roofs import Roof, roof_of


def model_workload(
    path: Path,
    *,
    name: str | None = None,
    mode: RunMode = RunMode.INFERENCE,
    batch: int | None = None,
    precision: str | None = None,
    amount: Amount | None = None,
    sizes: Mapping[str, int] | None = None,
) -> ModelWorkload:
    """Return the workload of a model file: an ONNX file, or a configuration read as a graph.

    ``name``: of the workload (default: from the file's name). ``batch`` and ``sizes``: values for
    the dimensions that the file leaves open. Raises DocumentError for a broken file, UsageError for
    training in fp8.
    """
    check_trained_in(mode, precision)
    graph = of_path(path, batch=batch, sizes=sizes)
    return ModelWorkload(
        name=name or plain_name(path),
        mode=mode,
        precision=precision,
        batch=max(graph.batch, 1),
        file=path.name,
        amount=amount or Amount(unit=WorkUnit.STEP),
        runs_on=ANY_DEVICE,
        graph=to_lines(graph),
    )


def is_model(document: object, mode: RunMode) -> bool:
    """Return whether the document is a model workload with this mode (inference or training)."""
    return isinstance(document, ModelWorkload) and document.mode is mode


def graph_of(document: ModelWorkload) -> ModelGraph:
    """Return the parsed graph of a workload, from a cache of the last 16 graphs. Raises
    DocumentError."""
    return _graph(document.graph, document.name)


@lru_cache(maxsize=16)
def _graph(lines: tuple[str, ...], name: str) -> ModelGraph:
    return from_lines(lines, name)


def places_by_units(
    platforms: Mapping[str, Platform], known: Mapping[str, Platform]
) -> dict[int, list[Roof]]:
    """Return the roofs (peak rates) to predict at, grouped by number of cores or GPUs.

    A CPU platform has one roof for each power of two of cores and one for all its cores; a GPU
    platform has one roof, under the key 1.
    """
    roofs_by_units: dict[int, list[Roof]] = {}
    for platform in platforms.values():
        for units in core_grid(platform):
            roofs_by_units.setdefault(units, []).append(roof_of(platform, known, units))
    return roofs_by_units


def point(
    workload: str,
    roof: Roof,
    units: int,
    *,
    seconds: Interval,
    basis: Basis,
    memory: Interval,
    bound: Bound,
    energy_j: Interval | None = None,
    abstained: str | None = None,
) -> Prediction:
    """Return the prediction for one platform at one number of cores or GPUs (``units``).

    ``memory``: bytes on the GPU, or on the host for a CPU platform. The speedup is 1 until the
    forecaster computes it.
    """
    return Prediction(
        workload=workload,
        platform=roof.platform,
        cores=1 if roof.is_gpu else units,
        gpus=units if roof.is_gpu else 0,
        basis=basis,
        speedup=Interval(1.0, 1.0, 1.0),
        runtime_s=seconds,
        memory=MemoryUse(gpu_bytes=memory) if roof.is_gpu else MemoryUse(host_bytes=memory),
        energy_j=energy_j,
        bound=bound,
        abstained=abstained,
    )


def curves_of(points: Mapping[str, Sequence[Prediction]]) -> dict[str, PredictionCurve]:
    """Return the prediction curve of each platform, with its points sorted by number of GPUs or
    cores."""
    return {
        name: PredictionCurve(tuple(sorted(own, key=lambda p: p.gpus or p.cores)))
        for name, own in points.items()
    }


def of_copies(
    own: Prediction,
    copies: int,
    *,
    seconds: Interval,
    memory: MemoryUse,
    energy_j: Interval | None,
    why_not: str | None,
) -> Prediction:
    """Return the prediction for several GPUs with one copy of the model each (data parallel).

    ``own``: the prediction for one GPU. ``copies``: number of GPUs. ``seconds``: time per step of
    all copies together. ``memory`` (bytes) and ``energy_j`` (joules per step): of one copy on its
    own. ``why_not``: why Berth abstains from this prediction; None: it does not.
    """
    longer = seconds.mid * copies / own.runtime_s.mid
    return replace(
        own,
        gpus=copies,
        basis=max(own.basis, Basis.SCALED, key=lambda basis: basis.rank),
        runtime_s=seconds,
        memory=memory.scaled(copies),
        energy_j=None if energy_j is None else energy_j.scaled(longer),
        abstained=why_not or own.abstained,
    )
