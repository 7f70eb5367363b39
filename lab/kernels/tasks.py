"""The tasks: pairs of a reference platform and the target platform that is predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from berth.pilot.platform import Platform
from berth.predictor.learning.programs.columns import LabelRows
from lab.kernels.examples import Example, columns


@dataclass(frozen=True, slots=True)
class Task:
    """Predict times on ``target`` from a run on ``reference`` and the pilot's counters."""

    name: str
    target: Platform
    reference: Platform
    reference_is_label: bool
    """The reference's time is the published one rather than our own pilot's."""
    speedup_over: Platform | None = None
    """Figures once more as speedup over this labelled platform, whose time is measured too."""

    def columns(self, examples: Sequence[Example], *, published: bool) -> LabelRows:
        """Return the rows of this task."""
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


def _published(examples: Sequence[Example], task: Task) -> LabelRows:
    """Return the published work as features, over a roofline of bytes and flops alone."""
    core, gpu = task.target.signature, task.target.is_gpu
    dram = core.level("dram")
    if dram is None:
        raise ValueError("a signature without main memory")
    bandwidth = dram.total_bytes_per_s if gpu else dram.core_bytes_per_s or dram.total_bytes_per_s
    flops = core.flops_f64_per_s if gpu else core.flops_f64_core_per_s or core.flops_f64_per_s
    work = np.array(
        [
            (e.row.bytes_per_rep, e.row.flops_per_rep, e.row.iterations_per_rep,
             e.row.kernels_per_rep)
            for e in examples
        ]
    )  # fmt: skip
    reference = np.log(
        [
            e.seconds[task.reference.name]
            if task.reference_is_label or e.profile.runtime is None
            else e.profile.runtime.median_s
            for e in examples
        ]
    )
    nothing = np.zeros(len(examples))
    return LabelRows(
        features=np.column_stack([np.log1p(work), reference, [e.size for e in examples]]),
        fixed_s=nothing,
        parallel_s=np.maximum(work[:, 0] / bandwidth, work[:, 1] / flops),
        reductions=nothing,
        log_efficiency=nothing,
        log_reference=reference,
        log_time=np.array([math.log(e.seconds[task.target.name]) for e in examples]),
        kernels=tuple(e.kernel for e in examples),
    )
