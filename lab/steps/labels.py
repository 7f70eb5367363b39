"""Measured training steps beside their graphs: timm's on one GPU, our own on one CPU core.

timm's (RTX 3090, automatic mixed precision, SGD with momentum, two memory layouts): the batch is
the largest of 512, 384, 256, 192, 128 ... that fitted its 24 GB. Ours (``graphs/data``): fp32,
PyTorch on one core, small models, with the peak memory. Nobody measured power in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.pilot.dl.document import ModelRun, Task
from berth.predictor.families.graph.latency.features import Floats
from berth.predictor.learning.graphs.run_seconds import seconds
from lab.graphs import model_runs
from lab.ground.table import Flags, Places, Strings
from lab.latency import timm_runs as data
from lab.latency.model_names import architectures, family_of
from lab.latency.timm_runs import Runs

SECONDS, MEMORY, POWER = "seconds", "memory_bytes", "power_w"
TARGETS = (SECONDS, MEMORY, POWER)


@dataclass(frozen=True)
class Steps:
    """Rows of runs that have a graph, and what was measured of a whole step."""

    runs: Runs
    labels: Floats
    """[rows, len(TARGETS)]; NaN where nobody measured."""

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, rows: Flags | Places) -> Steps:
        return Steps(self.runs[rows], self.labels[rows])

    @property
    def features(self) -> Floats:
        """[rows, len(GRAPH_FEATURES)]"""
        found: Floats = data.graphs().features[self.runs.graph]
        return found

    @property
    def setting(self) -> Strings:
        """[rows] device, precision and layout: what shares one law."""
        return self.runs.groups("device", "precision", "layout")


def of_timm(rows: Runs) -> Steps:
    """Those of timm's rows that have a graph; only their time is known."""
    kept = rows[rows.has_graph]
    labels = np.full((len(kept), len(TARGETS)), np.nan)
    labels[:, 0] = kept.seconds * kept.batch
    return Steps(kept, labels)


def gpu() -> Steps:
    """timm's training rows with a graph. Raises ToolMissing without the data."""
    return of_timm(data.runs(training=True))


@cache
def cpu() -> Steps:
    """Our own training runs, all of one core. Raises ToolMissing without timm's graphs."""
    place = {f"{a.model}_{a.image_size}": n for n, a in enumerate(data.graphs().architectures)}
    found = [
        run for run in model_runs.runs()
        if run.setting.task is Task.TRAINING and run.model.name in place
        and seconds(run) is not None
    ]  # fmt: skip
    labels = np.array([_labels(run) for run in found])
    graph = np.array([place[run.model.name] for run in found])
    batch = np.array([run.setting.batch for run in found])
    same, rows = architectures(), len(found)
    names = [data.graphs().architectures[n] for n in graph.tolist()]
    unknown = np.full(rows, np.nan)

    def all_of(value: object) -> Strings:
        return np.array([value] * rows)

    runs = Runs(
        model=np.array([a.model for a in names]),
        architecture=np.array([same.get(a.model, a.model) for a in names]),
        family=np.array([family_of(a.model) for a in names]),
        image_size=np.array([a.image_size for a in names]),
        device=np.array([run.platform for run in found]),
        precision=np.array([run.setting.precision.value for run in found]),
        layout=all_of("nchw"), torch=np.full(rows, 2130), cuda=np.zeros(rows),
        compiled=np.zeros(rows, bool), training=np.ones(rows, bool),
        batch=batch, seconds=labels[:, 0] / batch, parameters=unknown, gmacs=unknown,
        macts=unknown, graph=graph,
    )  # fmt: skip
    return Steps(runs, labels)


def _labels(run: ModelRun) -> tuple[float, float, float]:
    """Seconds, bytes beyond interpreter and framework, watts."""
    peak = run.measurements["host_run_peak_bytes"].value
    before = run.measurements["host_before_bytes"].value
    memory = peak - before if peak and before and peak > before else np.nan
    power = run.measurements["power_w"].value
    return seconds(run) or np.nan, memory, np.nan if power is None else power
