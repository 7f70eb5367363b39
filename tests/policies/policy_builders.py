"""Small values for the tests of policies: each builder gives something valid to vary."""

from __future__ import annotations

from typing import Any

from berth.policies import Candidate, CandidateState, Request, Resources, Translation
from berth.policies.carbon import Intensity
from berth.policies.memory import with_memory
from berth.policies.translate import translate
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import SizeGrowth

NOW_S = 1_000_000.0
GIB = 2**30
H = 3600.0


def cpu(name: str = "cpu", **changes: Any) -> Candidate:
    """A CPU partition of 4 nodes with 32 cores and 128 GiB."""
    values: dict[str, Any] = {
        "name": name,
        "platform": name,
        "queue": name,
        "cores_per_node": 32,
        "memory_bytes_per_node": 128 * GIB,
        "nodes": 4,
        "max_time_s": 48 * H,
        "price_per_core_hour": 0.05,
        "power_per_core_w": 10.0,
        "carbon": Intensity((100.0,)),
        "instruction_sets": ("avx2",),
    }
    return Candidate(**{**values, **changes})


def gpu(name: str = "gpu", **changes: Any) -> Candidate:
    """A GPU partition of 2 nodes with 4 GPUs of 80 GiB and 64 cores."""
    values: dict[str, Any] = {
        "gres": "gpu:h100",
        "gpus_per_node": 4,
        "gpu_memory_bytes": 80 * GIB,
        "cores_per_node": 64,
        "memory_bytes_per_node": 512 * GIB,
        "nodes": 2,
        "targets": ("cuda",),
        "price_per_core_hour": None,
        "price_per_gpu_hour": 3.0,
        "power_per_core_w": None,
        "power_per_gpu_w": 600.0,
        "translation": Translation(gpus=1, cpus_per_gpu=8, keep_tasks=False),
    }
    return cpu(name, **{**values, **changes})


def state(**changes: Any) -> CandidateState:
    """Up, with room, read just now."""
    values: dict[str, Any] = {
        "up": True,
        "idle_cores": 128,
        "idle_gpus": 8,
        "pending_jobs": 0,
        "as_of_s": NOW_S - 5,
        "usable_nodes": 4,
    }
    return CandidateState(**{**values, **changes})


def states(*candidates: Candidate, **changes: Any) -> dict[str, CandidateState]:
    """The same good state for each."""
    return {c.name: state(**changes) for c in candidates}


def request(**changes: Any) -> Request:
    """Ada's job: eight tasks, no wishes."""
    resources = {
        k: changes.pop(k)
        for k in ("nodes", "tasks", "cpus_per_task", "gpus", "memory_bytes_per_node")
        if k in changes
    }
    values: dict[str, Any] = {
        "user": "ada",
        "account": "physics",
        "resources": Resources(**{"nodes": 1, "tasks": 8, **resources}),
        "workload": "lu",
    }
    return Request(**{**values, **changes})


def interval(mid: float, factor: float = 1.5) -> Interval:
    """``mid`` within a factor."""
    return Interval(mid / factor, mid, mid * factor)


def curve(platform: str, seconds: float, **changes: Any) -> PredictionCurve:
    """One core or GPU takes ``seconds``; perfect scaling to 64. ``gpus=True`` for a GPU.

    ``needs_bytes``: of the GPU's memory there, else of the host's; ``memory``: both.
    """
    gpus = changes.pop("gpus", False)
    need = interval(changes.pop("needs_bytes", 2.0 * GIB), 1.2)
    memory = MemoryUse(gpu_bytes=need) if gpus else MemoryUse(host_bytes=need)
    factor = changes.pop("factor", 1.5)
    points = []
    for units in (1, 2, 4, 8, 16, 32, 64):
        values: dict[str, Any] = {
            "workload": "lu",
            "platform": platform,
            "cores": 0 if gpus else units,
            "gpus": units if gpus else 0,
            "basis": Basis.CALIBRATED,
            "speedup": interval(100.0 / (seconds / units), factor),
            "runtime_s": interval(seconds / units, factor),
            "memory": memory,
            "energy_j": None,
            "bound": Bound.MEMORY,
        }
        points.append(Prediction(**{**values, **changes}))
    return PredictionCurve(tuple(points))


def forecast(*curves: PredictionCurve, **changes: Any) -> Forecast:
    """A program that runs on x86-64 with AVX2 and on CUDA, forecast on the curves' platforms."""
    values: dict[str, Any] = {
        "workload": "lu",
        "kind": "program",
        "digest": f"sha256:{hash(curves)}",
        "bundle": "sha256:bundle",
        "targets": ("cpu", "cuda"),
        "architecture": "x86_64",
        "instruction_sets": ("avx2",),
        "threads": 1,
        "ranks": 1,
        "gpus": 0,
        "container": None,
        "reference_platform": "cpu",
        "reference_runtime_s": 100.0,
        "sizes": SizeGrowth(1000.0, 2.0 * GIB),
        "curves": {c.points[0].platform: c for c in curves},
    }
    return Forecast(**{**values, **changes})


def translated(request: Request, candidate: Candidate) -> Resources | str:
    """The request in the candidate's resources, memory included, or why there are none such."""
    held = translate(request, candidate)
    return held if isinstance(held, str) else with_memory(request, candidate, held, None)
