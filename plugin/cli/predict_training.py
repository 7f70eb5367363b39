"""``berth predict MODEL.onnx --mode training``: a training step's time and memory by platform."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.columns import columns
from berth.plugin.cli.forecast_text import explain_sources, sources_json
from berth.plugin.cli.intervals import as_numbers
from berth.plugin.cli.predict_asked import Asked
from berth.predictor.core.prediction import Basis

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.families.training_step.predictor import StepPrediction
    from berth.predictor.footprint.footprint import Footprint
    from berth.predictor.graphs.graph import ModelGraph

STEPS = "berth.dl-training-bundle/1"


def predict_training(asked: Asked) -> None:
    """Rank platforms by the time of a training step of a model."""
    from berth.predictor.families.graph.kind import ModelWorkload  # noqa: PLC0415 - slow
    from berth.predictor.families.graph.model import graph_of  # noqa: PLC0415 - numpy
    from berth.predictor.families.training_step import bundle as bundles  # noqa: PLC0415
    from berth.predictor.families.training_step.predictor import predict  # noqa: PLC0415
    from berth.predictor.families.training_step.training_step_family import (  # noqa: PLC0415
        precision_of,
        step_memory,
    )

    asked.check("--picture")
    document = asked.workload.document
    assert isinstance(document, ModelWorkload)  # noqa: S101 - by its kind
    graph, numbers = graph_of(document), precision_of(document)
    forecast = asked.forecast(asked.chosen())
    folder = asked.bundles.get(STEPS)
    model = None if folder is None else bundles.load(folder)
    steps = asked.workload.amount.steps if forecast.whole_job else None
    found = []
    for one in predict(graph, list(forecast.curves), asked.platforms, model, numbers=numbers):
        platform = asked.platforms[one.platform]
        predicted = forecast.at(one.platform, 1 if platform.is_gpu else platform.cores)
        assert predicted is not None  # noqa: S101 - of a platform that is forecast
        seconds = predicted.runtime_s if steps is None else predicted.runtime_s.scaled(1 / steps)
        found.append(replace(one, seconds=seconds, basis=predicted.basis))
    found.sort(key=lambda one: (one.basis is Basis.PRIOR, one.seconds.mid, one.platform))
    asked.draw_times((one.platform, one.seconds, one.basis is not Basis.PRIOR) for one in found)
    memory, name = step_memory(graph, numbers), document.file or document.name
    if asked.as_json:
        answer = _document(name, graph, found, memory, asked.platforms)
        answer |= {"unit": forecast.unit.value, "amount": asked.workload.amount.steps}
        for row in answer["predictions"]:
            row["sources"] = sources_json(forecast, row["platform"])
        click.echo(json.dumps(answer, indent=2))
        return
    _show(name, graph, found, memory, asked.platforms)
    if steps is not None:
        click.echo(f"A job does {steps:g} such steps; `berth place` ranks by the whole.")
    if asked.why:
        explain_sources(forecast, [one.platform for one in found])


def _document(
    name: str,
    graph: ModelGraph,
    found: Sequence[StepPrediction],
    memory: Mapping[bool, Footprint],
    platforms: Mapping[str, Platform],
) -> dict[str, Any]:
    return {
        "model": name,
        "graph": graph.digest,
        "mode": "training",
        "batch": graph.batch,
        "parameters": graph.parameters,
        "unknown_operators": dict(graph.unknown),
        "predictions": [
            {
                "platform": one.platform,
                "basis": one.basis.value,
                "precision": one.precision,
                "step_s": as_numbers(one.seconds),
                "samples_per_s": one.samples_per_s,
                "memory_bytes": as_numbers(memory[platforms[one.platform].is_gpu].memory),
                "fits": _fits(one, memory, platforms),
                "learnt_on": one.learnt_on,
            }
            for one in found
        ],
    }


def _fits(
    one: StepPrediction, memory: Mapping[bool, Footprint], platforms: Mapping[str, Platform]
) -> str:
    platform = platforms[one.platform]
    return memory[platform.is_gpu].fits(platform.memory_bytes).value


def _show(
    name: str,
    graph: ModelGraph,
    found: Sequence[StepPrediction],
    memory: Mapping[bool, Footprint],
    platforms: Mapping[str, Platform],
) -> None:
    click.echo(
        f"{name}, batch {graph.batch}, a training step: forward, backward, SGD with momentum\n"
    )
    header = ("platform", "step", "90 % interval", "samples/s", "memory, 95 %", "fits", "in",
              "basis")  # fmt: skip
    rows = []
    for one in found:
        need = memory[platforms[one.platform].is_gpu].memory
        low, high = (format_seconds(s) for s in (one.seconds.low, one.seconds.high))
        rows.append((
            one.platform, format_seconds(one.seconds.mid), f"{low} to {high}",
            f"{one.samples_per_s:.4g}", f"{format_bytes(need.low)} to {format_bytes(need.high)}",
            _fits(one, memory, platforms), one.precision, one.basis.value,
        ))  # fmt: skip
    usable = sum(one.basis is not Basis.PRIOR for one in found)
    click.echo(columns(header, rows, first=usable))
    learnt = sorted({one.learnt_on for one in found})
    click.echo(
        f"\nLearnt on {' and '.join(learnt)}; prior: its rates by the ratio of roofs. Loading data "
        "and several GPUs are not in it."
    )
    if graph.unknown:
        click.echo(f"Unknown operators count no operations: {', '.join(sorted(graph.unknown))}")
