"""Runs of small models on a platform whose time follows a rule, for tests of adaptation."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from small_models import convolutional, graph_of

from berth.pilot.dl.document import (
    ComputeDevice,
    ModelFacts,
    ModelRun,
    Outcome,
    Protocol,
    Setting,
    Task,
)
from berth.pilot.host import sha256_of
from berth.pilot.profile import Provenance, Runtime
from berth.predictor.graphs.roofline import roofline
from berth.predictor.hardware.roofs import Roof

BATCHES = (1, 4)


def models(folder: Path) -> list[Path]:
    """Twelve convolutional nets as files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for blocks, width in product((1, 2, 3), (8, 16, 32, 64)):
        path = folder / f"conv{blocks}x{width}.onnx"
        path.write_bytes(convolutional(blocks, width).SerializeToString())
        made.append(path)
    return made


def run_of(
    path: Path, roof: Roof, *, batch: int = 1, factor: float = 3.0, **setting: str
) -> ModelRun:
    """A run of inference that took ``factor`` times what its roofline says."""
    graph = graph_of(path.read_bytes(), batch)
    taken = factor * roofline(graph, roof).seconds.mid
    runtime = Runtime(median_s=taken, spread_s=0.0, repeats_s=(taken,))
    return ModelRun(
        platform=roof.platform,
        model=ModelFacts(name=path.stem, sha256=sha256_of(path) or ""),
        setting=Setting.model_validate(
            {"task": Task.INFERENCE, "device": ComputeDevice.CPU, "batch": batch, **setting}
        ),
        protocol=Protocol(),
        outcome=Outcome.OK,
        latency=runtime,
        processor_time=runtime,
        provenance=Provenance(created="2026-11-21T00:00:00+00:00", berth_version="0"),
    )


def runs(paths: list[Path], roof: Roof, *, factor: float = 3.0) -> list[ModelRun]:
    """Every model at every batch."""
    return [run_of(path, roof, batch=batch, factor=factor) for path in paths for batch in BATCHES]
