"""Our own measurements on one core of a CPU, in the columns of timm's measurements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from berth.pilot.dl.document import ComputeDevice, ModelRun, Task
from berth.predictor.families.graph.latency.features import WorkByKind
from berth.predictor.learning.graphs.adapt import run_seconds
from lab.datasets.timm import Architecture
from lab.graphs.model_runs import runs
from lab.ground.table import Floats
from lab.latency.fit_latency import Sample
from lab.latency.model_names import architectures, family_of
from lab.latency.samples import sample_of
from lab.latency.timm_devices import OWN_CPU
from lab.latency.timm_runs import NO_GRAPH, Runs, graphs

SOFTWARE = "onnxruntime, one thread"
SETTING = f"{OWN_CPU} | fp32 | nchw | {SOFTWARE}"


def runs_where(chosen: Callable[[ModelRun], bool]) -> list[ModelRun]:
    """Return the ``chosen`` runs of timm's graphs that have a measured time.

    Raises ToolMissing without the graphs.
    """
    known = graphs().places
    return [
        run for run in runs()
        if run.model.name in known and run_seconds(run) is not None and chosen(run)
    ]  # fmt: skip


def as_rows(of: list[ModelRun]) -> Runs:
    """Return our runs in timm's columns; CUDA's version is 0."""
    place, same = graphs().places, architectures()
    names = [run.model.name.rpartition("_") for run in of]
    model = [name for name, _, _ in names]
    batch = np.array([run.setting.batch for run in of], np.int64)
    taken = np.array([run_seconds(run) or np.nan for run in of])
    return Runs(
        model=np.array(model),
        architecture=np.array([same.get(name, name) for name in model]),
        family=np.array([family_of(name) for name in model]),
        image_size=np.array([int(size) for _, _, size in names]),
        device=np.array([run.platform for run in of]),
        precision=np.array([run.setting.precision.value for run in of]),
        layout=np.full(len(of), "nchw"), torch=np.full(len(of), 291), cuda=np.zeros(len(of)),
        compiled=np.zeros(len(of), bool),
        training=np.array([run.setting.task is Task.TRAINING for run in of]),
        batch=batch, seconds=taken / batch,
        graph=np.array([place.get(run.model.name, NO_GRAPH) for run in of]),
    )  # fmt: skip


def own_sample(known: dict[Architecture, tuple[WorkByKind, Floats]]) -> tuple[Sample, Floats]:
    """Return our inference runs on one core of the graphs in ``known``, and the batch of each row.

    The group of a row is its model.
    """

    def wanted(run: ModelRun) -> bool:
        model, _, size = run.model.name.rpartition("_")
        asked = run.setting
        kind = (asked.device, asked.threads, asked.task) == (ComputeDevice.CPU, 1, Task.INFERENCE)
        known_here = size.isdigit() and Architecture(model, int(size)) in known
        return kind and known_here and run.platform == OWN_CPU and run_seconds(run) is not None

    rows = as_rows([run for run in runs() if wanted(run)])
    names = zip(rows.model.tolist(), rows.image_size.tolist(), strict=True)
    sample = sample_of(
        rows,
        [known[Architecture(*name)] for name in names],
        np.full(len(rows), SETTING),
        rows.model,
    )
    return sample, rows.batch.astype(np.float64)
