"""What is evaluated: which reference predicts which target, by which methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.learning.programs.columns import Columns, columns
from berth.predictor.learning.programs.model import Settings
from lab.kernels import baselines as rivals
from lab.kernels.examples import Example
from lab.kernels.select import CANDIDATES, Fit, fit_model

NO_CHOICE = CANDIDATES[:1]
"""For methods without settings: one candidate, nothing to select."""
BARE = tuple(settings for settings in CANDIDATES if settings.dead_zone == 0)
"""For a residual over no prior: it has no dead zone."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to predict: what it sees, how it is fitted and among which settings."""

    name: str
    what: str
    fitter: Fit
    candidates: tuple[Settings, ...]
    published: bool = False
    """It sees the published bytes and flops instead of our counters."""


METHODS = (
    Method("both", "roofline prior x learned residual (shipped)", fit_model, CANDIDATES),
    Method("roofline alone", "calibrated prior", rivals.roofline_alone, NO_CHOICE),
    Method("residual alone", "XGBoost on counters", rivals.residual_alone, BARE),
    Method("published roofline", "published bytes and flops", rivals.absolute, NO_CHOICE, True),
    Method("extra trees", "published bytes and flops", rivals.extra_trees, NO_CHOICE, True),
)


@dataclass(frozen=True, slots=True)
class Task:
    """Times on ``target`` from a run on ``reference`` and the pilot's counters."""

    name: str
    target: Platform
    reference: Platform
    reference_is_label: bool
    """The reference's time is the published one rather than our own pilot's."""
    speedup_over: Platform | None = None
    """Figures once more as speedup over this labelled platform, whose time is measured too."""

    def columns(self, examples: Sequence[Example], *, published: bool) -> Columns:
        """The rows of this task."""
        if published:
            return _published(examples, self)
        return columns(
            examples, self.target, self.reference, reference_is_label=self.reference_is_label
        )


def tasks(examples: Sequence[Example], platforms: Mapping[str, Platform]) -> tuple[Task, ...]:
    """Quartz core to V100 and, from our own machine, each labelled platform."""
    ours = platforms[examples[0].profile.platform]
    quartz, v100 = platforms["quartz"], platforms["lassen-v100"]
    return (
        Task("quartz core -> V100", v100, quartz, True),
        Task(f"{ours.name} -> quartz core", quartz, ours, False),
        Task(f"{ours.name} -> V100", v100, ours, False, speedup_over=quartz),
    )


def _published(examples: Sequence[Example], task: Task) -> Columns:
    rows, roofs, references, measured = [], [], [], []
    dram = task.target.signature.level("dram")
    if dram is None:
        raise ValueError("a signature without main memory")
    core = task.target.signature
    gpu = task.target.is_gpu
    bandwidth = dram.total_bytes_per_s if gpu else dram.core_bytes_per_s or dram.total_bytes_per_s
    flops = core.flops_f64_per_s if gpu else core.flops_f64_core_per_s or core.flops_f64_per_s
    for example in examples:
        row, runtime = example.row, example.profile.runtime
        if runtime is None:
            continue
        seconds = (
            example.seconds[task.reference.name] if task.reference_is_label else runtime.median_s
        )
        work = (row.bytes_per_rep, row.flops_per_rep, row.iterations_per_rep, row.kernels_per_rep)
        rows.append([*(math.log(value + 1) for value in work), math.log(seconds), row.size])
        roofs.append(max(row.bytes_per_rep / bandwidth, row.flops_per_rep / flops))
        references.append(math.log(seconds))
        measured.append(math.log(example.seconds[task.target.name]))
    return Columns(
        np.array(rows),
        np.zeros(len(rows)),
        np.array(roofs),
        np.zeros(len(rows)),
        np.zeros(len(rows)),
        np.array(references),
        np.array(measured),
        tuple(example.kernel for example in examples),
    )
