"""MIG: what each GPU can be cut into, and how to cut a fleet for the jobs that are coming.

``layout`` holds what a GPU can be cut into, a table per GPU model and a few rules; the
planners (``planner_gpu`` exact for one GPU, ``planner_fleet`` a column model for many,
``heuristic`` without a solver) turn demands and the fleet as it stands into target layouts, and
``plan`` orders destroying and creating so that no running instance is touched.
Carrying a plan out is ``berth.plugin.mig``.
"""

from __future__ import annotations

from berth.policies.mig.layout import GpuState, Instance, Layout, Running
from berth.predictor.hardware.mig.geometry import Difference, Geometry, Media, SliceProfile, diff
from berth.predictor.hardware.mig.slices import known_gpus, lookup

__all__ = [
    "Difference",
    "Geometry",
    "GpuState",
    "Instance",
    "Layout",
    "Media",
    "Running",
    "SliceProfile",
    "diff",
    "known_gpus",
    "lookup",
]
