"""Measured training steps beside their graphs: timm's on one GPU, our own on one CPU core.

timm's (RTX 3090, automatic mixed precision, SGD with momentum, two memory layouts): the batch is
the largest of 512, 384, 256, 192, 128 ... that fitted its 24 GB. Ours (``lab/graphs/data``): fp32,
PyTorch on one core, small models, with the peak memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from berth.pilot.dl.document import ModelRun, Task
from lab.ground.table import Floats, Strings, Table
from lab.latency import own_runs, timm_runs
from lab.latency.timm_runs import Runs

TARGETS = ("step time", "peak memory")


@dataclass(frozen=True)
class Steps(Table):
    """Rows of runs that have a graph, and what was measured of a whole step."""

    runs: Runs
    labels: Floats
    """[rows, len(TARGETS)] seconds and bytes; NaN where nobody measured."""

    @property
    def features(self) -> Floats:
        """Return [rows, len(GRAPH_FEATURES)]"""
        return np.asarray(timm_runs.graphs().features[self.runs.graph])

    @property
    def batch(self) -> Floats:
        """Return [rows]"""
        return self.runs.batch.astype(float)

    @property
    def setting(self) -> Strings:
        """Return [rows] device, precision and layout: what shares the rates of a cost model."""
        return self.runs.groups("device", "precision", "layout")


def of_timm(rows: Runs) -> Steps:
    """Return those of timm's rows that have a graph; only their time is known."""
    rows = rows[rows.has_graph]
    seconds = rows.seconds * rows.batch
    return Steps(rows, np.column_stack([seconds, np.full(len(rows), np.nan)]))


def gpu() -> Steps:
    """timm's training rows with a graph. Raises ToolMissing without the data."""
    return of_timm(timm_runs.runs(training=True))


@cache
def cpu() -> Steps:
    """Our own training runs, all of one core. Raises ToolMissing without timm's graphs."""
    found = own_runs.runs_where(lambda run: run.setting.task is Task.TRAINING)
    rows = own_runs.as_rows(found)
    memory = np.array([_memory(run) for run in found])
    return Steps(rows, np.column_stack([rows.seconds * rows.batch, memory]))


def _memory(run: ModelRun) -> float:
    """Return bytes beyond interpreter and framework."""
    peak = run.measurements["host_run_peak_bytes"].value
    before = run.measurements["host_before_bytes"].value
    return peak - before if peak and before and peak > before else np.nan
