"""Our own measurements on one core of a CPU, as a setting beside timm's."""

from __future__ import annotations

import numpy as np

from berth.pilot.dl.document import Device, Task
from berth.predictor.families.graph.latency.features import (
    ROOF_FEATURES,
    Floats,
    Work,
    roof_features,
)
from berth.predictor.families.graph.latency.inputs import likeness, terms
from berth.predictor.hardware import platforms
from berth.predictor.hardware.roofs import Numbers, roofs
from berth.predictor.learning.graphs.run_seconds import seconds
from lab.datasets.timm import Architecture
from lab.graphs.model_runs import runs
from lab.latency.process import Sample

PLATFORM = "epyc-genoa-vm"
SOFTWARE = "onnxruntime, one thread"
SETTING = f"{PLATFORM} | fp32 | nchw | {SOFTWARE}"


def sample(known: dict[Architecture, tuple[Work, Floats]]) -> tuple[Sample, Floats]:
    """Inference of graphs in ``known``, grouped by model, and the batches."""
    place = roofs(platforms.shipped())[PLATFORM]
    features, roof, batch, took, group = [], [], [], [], []
    for run in runs():
        model, _, size = run.model.name.rpartition("_")
        work = known.get(Architecture(model, int(size))) if size.isdigit() else None
        asked = run.setting
        measured = seconds(run)
        of_kind = (asked.device, asked.threads, asked.task) == (Device.CPU, 1, Task.INFERENCE)
        if work is None or measured is None or not of_kind or run.platform != PLATFORM:
            continue
        roof.append(roof_features(work[0], [place], [Numbers.FP32], asked.batch)[0])
        features.append(work[1])
        batch.append(float(asked.batch))
        took.append(measured / asked.batch)
        group.append(model)
    many = np.array(batch)
    graph, under = np.array(features), np.array(roof).reshape(-1, len(ROOF_FEATURES))
    return Sample(
        np.full(len(took), SETTING), np.array(group), terms(graph, under, many),
        likeness(graph, under, many), np.log(took),
    ), many  # fmt: skip
