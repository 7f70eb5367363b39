"""A model file as a workload: the graph without its weights, and what is to be done with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from berth.predictor.core.forecast import Unit
from berth.predictor.core.workload import Amount
from berth.predictor.families.graph.kind import (
    ANY_DEVICE,
    Mode,
    ModelWorkload,
    check_trained_in,
)
from berth.predictor.graphs.front_ends.any_model import of_path
from berth.predictor.graphs.stored import to_lines

_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]+")


def model_workload(
    path: Path,
    *,
    name: str | None = None,
    mode: Mode = Mode.INFERENCE,
    batch: int | None = None,
    precision: str | None = None,
    amount: Amount | None = None,
    sizes: Mapping[str, int] | None = None,
) -> ModelWorkload:
    """The workload of an ONNX file or a configuration that is read as a graph.

    Raises DocumentError for a broken file, UsageError for training in fp8.
    """
    check_trained_in(mode, precision)
    graph = of_path(path, batch=batch, sizes=sizes)
    return ModelWorkload(
        name=name or plain_name(path),
        mode=mode,
        precision=precision,
        batch=max(graph.batch, 1),
        file=path.name,
        amount=amount or Amount(unit=Unit.STEP),
        runs_on=ANY_DEVICE,
        graph=to_lines(graph),
    )


def plain_name(path: Path) -> str:
    """A workload's name from a file's: ``resnet50.onnx`` gives ``resnet50``."""
    stem = path.parent.name if path.name == "config.json" else path.stem
    return _PLAIN.sub("-", stem).strip("-.+_")[:128] or "model"
