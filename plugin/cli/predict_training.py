"""``berth predict MODEL.onnx --mode training``: a training step's time and memory by platform."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.pilot.errors import UsageError
from berth.pilot.units import format_bytes, format_seconds
from berth.plugin.cli.columns import columns
from berth.plugin.cli.intervals import as_numbers

if TYPE_CHECKING:
    from berth.pilot.platform import Platform
    from berth.predictor.families.training_step.predictor import StepPrediction
    from berth.predictor.footprint.footprint import Footprint
    from berth.predictor.graphs.graph import ModelGraph

_NOT_HERE = ("roofline", "precision")
"""Options of model graphs that mean nothing for a training step."""


def predict_training(path: Path, asked: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Rank platforms by the time of a training step of the model of ``path``."""
    from berth.plugin.cli.workload_options import read_sizes  # noqa: PLC0415 - numpy, only when asked
    from berth.predictor.families.training_step import bundle as bundles  # noqa: PLC0415
    from berth.predictor.families.training_step.predictor import predict  # noqa: PLC0415
    from berth.predictor.graphs.doors.any_model import of_path  # noqa: PLC0415
    from berth.predictor.hardware import platforms as catalogue  # noqa: PLC0415

    stray = next((name for name in _NOT_HERE if asked[name]), None)
    stray = stray or ("picture" if given["picture"] is not None else None)
    if stray is not None:
        raise UsageError(
            f"--{stray} is not for --mode training",
            hint="training is predicted in mixed precision on GPUs and in fp32 on CPUs",
        )
    graph = of_path(path, batch=given.get("batch"), sizes=read_sizes(asked["dim"]))
    platforms = catalogue.load(given["folder"])
    names = list(dict.fromkeys(given["names"]))
    chosen = [catalogue.get(name, platforms).name for name in names] or list(platforms)
    memory = _memory(graph)
    model = None if given.get("bundle") is None else bundles.load(given["bundle"])
    found = sorted(
        predict(graph, chosen, platforms, model), key=lambda one: (one.seconds.mid, one.platform)
    )
    name = path.name if path.is_file() else path.parent.name
    if given["as_json"]:
        click.echo(json.dumps(_document(name, graph, found, memory, platforms), indent=2))
    else:
        _show(name, graph, found, memory, platforms)


def _memory(graph: ModelGraph) -> dict[bool, Footprint]:
    """On a GPU in mixed precision, on a CPU in fp32; SGD with momentum."""
    from berth.predictor.footprint.footprint import (  # noqa: PLC0415 - numpy
        MOMENTUM,
        Task,
        count,
        footprint,
    )
    from berth.predictor.hardware.roofs import Numbers  # noqa: PLC0415

    return {
        gpu: footprint(count(graph, Task.TRAINING, on_gpu=gpu, numbers=numbers, moments=MOMENTUM))
        for gpu, numbers in ((True, Numbers.FP16), (False, Numbers.FP32))
    }


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
    click.echo(columns(header, rows))
    learnt = sorted({one.learnt_on for one in found})
    click.echo(
        f"\nLearnt on {' and '.join(learnt)}; prior: its rates by the ratio of roofs. Loading data "
        "and several GPUs are not in it."
    )
    if graph.unknown:
        click.echo(f"Unknown operators count no operations: {', '.join(sorted(graph.unknown))}")
