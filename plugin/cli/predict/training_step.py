"""``berth predict MODEL.onnx --mode training``: a training step's time and memory by platform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.output.forecast_text import explain_sources, sources_json
from berth.plugin.cli.output.intervals import as_numbers
from berth.plugin.cli.predict.asked import Asked
from berth.plugin.report.terminal import columns
from berth.predictor.core.prediction import Basis

if TYPE_CHECKING:
    from berth.predictor.core.forecast import Forecast
    from berth.predictor.core.prediction import Interval
    from berth.predictor.families.graph.kind import ModelWorkload
    from berth.predictor.families.training_step.predictor import StepPrediction
    from berth.predictor.graphs.graph import ModelGraph

STEPS = "berth.dl-training-bundle/1"


@dataclass(frozen=True, slots=True)
class _Row:
    """A platform's line."""

    step: StepPrediction
    memory: Interval
    """Of a GPU, or of the host where there is none; 95 %."""
    on_gpu: bool
    fits: str
    abstained: str | None


def predict_training(asked: Asked) -> None:
    """Rank platforms by the time of a training step of a model."""
    from berth.predictor.families.graph.kind import ModelWorkload  # noqa: PLC0415 - slow
    from berth.predictor.families.graph.model import graph_of  # noqa: PLC0415 - numpy

    asked.check("--picture")
    document = asked.workload.document
    assert isinstance(document, ModelWorkload)  # noqa: S101 - by its kind
    graph = graph_of(document)
    forecast = asked.forecast(asked.chosen())
    steps = asked.workload.amount.steps if forecast.whole_job else None
    found = _rows(asked, document, graph, forecast, steps)
    asked.draw_times((one.step.platform, one.step.seconds, _usable(one)) for one in found)
    name, copies = document.file or document.name, max(1, document.runs_on.gpus)
    if asked.as_json:
        answer = _document(name, graph, found, copies)
        answer |= {"unit": forecast.unit.value, "amount": asked.workload.amount.steps}
        for row in answer["predictions"]:
            row["sources"] = sources_json(forecast, row["platform"])
        click.echo(json.dumps(answer, indent=2))
        return
    _show(name, graph, found, copies)
    if steps is not None:
        click.echo(f"A job does {steps:g} such steps; `berth place` ranks by the whole.")
    if asked.why:
        explain_sources(forecast, [one.step.platform for one in found])


def _rows(
    asked: Asked,
    document: ModelWorkload,
    graph: ModelGraph,
    forecast: Forecast,
    steps: float | None,
) -> list[_Row]:
    """Fastest first, those that one can act on before the others."""
    from berth.predictor.families.training_step import bundle as bundles  # noqa: PLC0415 - numpy
    from berth.predictor.families.training_step.predictor import predict  # noqa: PLC0415
    from berth.predictor.families.training_step.training_step_family import (  # noqa: PLC0415
        precision_of,
    )
    from berth.predictor.footprint.footprint import fits  # noqa: PLC0415

    folder = asked.bundles.get(STEPS)
    model = None if folder is None else bundles.load(folder)
    numbers, found = precision_of(document), []
    for one in predict(graph, list(forecast.curves), asked.platforms, model, numbers=numbers):
        platform = asked.platforms[one.platform]
        predicted = forecast.at(one.platform, 1 if platform.is_gpu else platform.cores)
        assert predicted is not None  # noqa: S101 - of a platform that is forecast
        seconds = predicted.runtime_s if steps is None else predicted.runtime_s.scaled(1 / steps)
        use = predicted.memory.scaled(1 / max(1, predicted.gpus))
        memory = use.gpu_bytes if platform.is_gpu else use.host_bytes
        assert memory is not None  # noqa: S101 - this family always says
        found.append(
            _Row(
                replace(one, seconds=seconds, basis=predicted.basis), memory, platform.is_gpu,
                fits(memory, platform.memory_bytes).value, predicted.abstained,
            )
        )  # fmt: skip
    return sorted(
        found, key=lambda one: (not _usable(one), one.step.seconds.mid, one.step.platform)
    )


def _usable(one: _Row) -> bool:
    return one.step.basis is not Basis.PRIOR and one.abstained is None


def _document(name: str, graph: ModelGraph, found: Sequence[_Row], copies: int) -> dict[str, Any]:
    return {
        "model": name,
        "graph": graph.digest,
        "mode": "training",
        "batch": graph.batch,
        "copies": copies,
        "parameters": graph.parameters,
        "unknown_operators": dict(graph.unknown),
        "predictions": [
            {
                "platform": one.step.platform,
                "basis": one.step.basis.value,
                "precision": one.step.precision,
                "step_s": as_numbers(one.step.seconds),
                "samples_per_s": one.step.samples_per_s,
                "host_memory_bytes": None if one.on_gpu else as_numbers(one.memory),
                "gpu_memory_bytes": as_numbers(one.memory) if one.on_gpu else None,
                "fits": one.fits,
                "abstained": one.abstained,
                "learnt_on": one.step.learnt_on,
            }
            for one in found
        ],
    }


def _show(name: str, graph: ModelGraph, found: Sequence[_Row], copies: int) -> None:
    click.echo(
        f"{name}, batch {graph.batch}, a training step: forward, backward, SGD with momentum\n"
    )
    header = ("platform", "step", "90 % interval", "samples/s", "memory, 95 %", "fits", "in",
              "basis")  # fmt: skip
    rows = []
    for one in found:
        low, high = (format_seconds(s) for s in (one.step.seconds.low, one.step.seconds.high))
        rows.append((
            one.step.platform, format_seconds(one.step.seconds.mid), f"{low} to {high}",
            f"{one.step.samples_per_s:.4g}",
            f"{format_bytes(one.memory.low)} to {format_bytes(one.memory.high)} "
            f"{'GPU' if one.on_gpu else 'host'}",
            one.fits, one.step.precision, one.step.basis.value,
        ))  # fmt: skip
    click.echo(columns(header, rows, first=sum(map(_usable, found))))
    learnt = sorted({one.step.learnt_on for one in found})
    click.echo(
        f"\nLearnt on {' and '.join(learnt)}; prior: its rates by the ratio of roofs. Loading data "
        "is not in it."
    )
    if copies > 1:
        click.echo(
            f"GPUs: {copies} of a node, a copy on each with this batch of its own. A step is one "
            f"batch of one GPU: {copies} of them are done at once, in {copies} times the time "
            "shown. Memory is that of each."
        )
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.abstained is not None:
            reasons.setdefault(one.abstained, []).append(one.step.platform)
    for reason, names in reasons.items():
        click.echo(f"Not to be acted on: {', '.join(names)}: {reason}.")
    if graph.unknown:
        click.echo(f"Unknown operators count no operations: {', '.join(sorted(graph.unknown))}")
