"""Our own measurements of models: ``data/model_runs.jsonl``, described in ``data/README.md``."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.dl.campaign import read_runs
from berth.pilot.dl.document import ComputeDevice, ModelRun, Task
from berth.predictor.graphs.graph import ModelGraph
from berth.predictor.graphs.kinds import FAMILIES
from berth.predictor.graphs.reader import ModelReader
from berth.predictor.graphs.roofline import FREE, load_of, roof_seconds
from berth.predictor.hardware import platforms
from berth.predictor.hardware.device import Numbers
from berth.predictor.hardware.roofs import Roof, roof_of
from berth.predictor.learning.graphs.adapt import run_seconds
from lab.datasets.timm import skeletons
from lab.graphs import PATIENT

DATA = Path(__file__).with_name("data") / "model_runs.jsonl"


def runs(path: Path = DATA) -> list[ModelRun]:
    """Return all measurements. Raises DocumentError naming the line."""
    return read_runs(path)


_ONE_CORE = (ComputeDevice.CPU, 1, Task.INFERENCE, "onnxruntime")


@dataclass(frozen=True, slots=True)
class OnOneCore:
    """A model that was run on one core, with its roof's seconds there."""

    model: str
    batch: int
    measured_s: float
    calls_s: float
    body_s: float
    """Of all operators, one after the other, at the full roof."""


def on_one_core(platform: str | None = None, path: Path = DATA) -> list[OnOneCore]:
    """Inference of timm's graphs on one core, under the roof of the platform that they were run on,
    or of another one with the same cores. Raises ToolMissing where the graphs are absent.
    """
    wanted: dict[str, list[ModelRun]] = {}
    for run in runs(path):
        setting = run.setting
        asked = (setting.device, setting.threads, setting.task, setting.framework)
        if asked == _ONE_CORE and run_seconds(run) is not None:
            wanted.setdefault(run.model.name, []).append(run)
    found = []
    known = platforms.shipped()
    with tempfile.TemporaryDirectory() as folder, ModelReader(PATIENT) as reader:
        file = Path(folder) / "model.onnx"
        for architecture, data in skeletons():
            own = wanted.get(f"{architecture.model}_{architecture.image_size}", ())
            if own:
                file.write_bytes(data)
            for run in own:
                graph = reader.read(file, batch=run.setting.batch)
                roof = roof_of(known[platform or run.platform], known, 1)
                found.append(_compared(run, graph, roof))
    return found


def _compared(run: ModelRun, graph: ModelGraph, roof: Roof) -> OnOneCore:
    load = load_of(graph, Numbers.FP32)
    count = np.bincount(graph.kind, minlength=len(load))
    runs_at_all = np.array([FAMILIES[int(f)] not in FREE for f in load.family])
    body = np.maximum(*roof_seconds(load, roof, Numbers.FP32))
    measured = run_seconds(run)
    assert measured is not None  # noqa: S101 - the caller chose those that were measured
    return OnOneCore(
        run.model.name, run.setting.batch, measured,
        float((count * runs_at_all).sum() * roof.launch_s),
        float((count * runs_at_all * body).sum()),
    )  # fmt: skip
