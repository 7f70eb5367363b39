"""Small values for the tests of policies: each builder gives something valid to vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from one_decision import decide

from berth.policies.limits import Denied, Limit, Rights
from berth.policies.resources import translate, with_memory
from berth.policies.settings import PolicySettings
from berth.policies.values import (
    Candidate,
    CandidateState,
    Decision,
    OwnQueue,
    Ranked,
    Request,
    Resources,
    Translation,
)
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
    own = {
        key: changes.pop(name)
        for key, name in (("default_memory", "default_memory"), ("limit_s", "default_limit_s"))
        if name in changes
    }
    values: dict[str, Any] = {
        "user": "ada",
        "account": "physics",
        "own": OwnQueue(**own) if own else None,
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


CPU, GPU = cpu(), gpu()
BOTH = (CPU, GPU)
PREDICTED = forecast(curve("cpu", 800.0), curve("gpu", 20.0, gpus=True))
"""Eight cores: 100 s; one GPU: 20 s."""
DEFAULTS = PolicySettings()


def decided(
    asked: Request | None = None,
    candidates: Sequence[Candidate] = BOTH,
    predicted: Forecast | None = PREDICTED,
    *,
    now: Mapping[str, CandidateState] | None = None,
    now_s: float = NOW_S,
    settings: PolicySettings = DEFAULTS,
    **changes: Any,
) -> Decision:
    """The decision for Ada's job, all candidates up and idle; ``changes`` of the settings."""
    now = states(*candidates) if now is None else now
    policy = settings.model_copy(update=changes)
    return decide(asked or request(), candidates, now, predicted, policy, now_s=now_s)


def ranked_as(decision: Decision, name: str) -> Ranked:
    """How a candidate is ranked in the decision."""
    return next(ranked for ranked in decision.ranked if ranked.candidate == name)


@dataclass(frozen=True)
class FixedRights(Rights):
    """The same limits in every queue, for everybody or by user (others have none)."""

    everybody: tuple[Limit, ...] | Denied = ()
    by_user: dict[str, tuple[Limit, ...] | Denied] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return repr(self)

    def limits(
        self, user: str, account: str | None, qos: str | None, queue: str
    ) -> tuple[Limit, ...] | Denied:
        return self.by_user.get(user, self.everybody)
