"""MIG planning: which instances each GPU can have, and how to divide a fleet's GPUs for its jobs.

``layout`` enumerates the legal layouts of a GPU from a table per GPU model and a few rules. The
planners (``planner_gpu``: exact, one GPU; ``planner_fleet``: a CP-SAT model for many GPUs;
``heuristic``: no solver needed) turn the jobs and the present layouts into target layouts, and
``plan`` orders the destroy and create steps so that no running instance is touched.
``berth.plugin.mig`` carries a plan out.
"""

from __future__ import annotations

from berth.policies.mig.layout import GpuInstance, GpuState, Layout, Running
from berth.predictor.hardware.mig.geometry import (
    Geometry,
    Media,
    NvmlDifference,
    SliceProfile,
    diff,
)
from berth.predictor.hardware.mig.slices import known_gpus, lookup

__all__ = [
    "Geometry",
    "GpuInstance",
    "GpuState",
    "Layout",
    "Media",
    "NvmlDifference",
    "Running",
    "SliceProfile",
    "diff",
    "known_gpus",
    "lookup",
]
