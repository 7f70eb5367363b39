"""Made-up workloads on a whole GPU, for tests of the slice predictor and the recommender."""

from __future__ import annotations

import math

from berth.predictor.families.slices.workload import MemoryNeed, SliceProbe, SliceWorkload, WholeRun

GIB = 2**30


def utilised(
    *,
    memory_gib: tuple[float, float, float] | None = (2.0, 3.0, 4.0),
    memory_utilization: float = 0.3,
    sm_utilization: float = 0.7,
    power_w: float = 160.0,
    step_s: float = 0.05,
    mean_step_s: float | None = None,
    gpu: str = "A100-40GB",
    probes: tuple[SliceProbe, ...] = (),
) -> SliceWorkload:
    """One point with utilisation and power, like a training job."""
    need = None
    if memory_gib is not None:
        low, mid, high = (v * GIB for v in memory_gib)
        need = MemoryNeed(low_bytes=low, mid_bytes=mid, high_bytes=high)
    return SliceWorkload(
        name="job", gpu=gpu, batch=64.0, memory=need, probes=probes,
        idle_power_w=55.0,
        points=(
            WholeRun(
                batch=64.0, step_s=step_s, mean_step_s=mean_step_s, power_w=power_w,
                sm_utilization=sm_utilization, memory_utilization=memory_utilization,
            ),
        ),
    )  # fmt: skip


def saturating_s(batch: float, processes: float, share: float = 1.0) -> float:
    """A known load model: 5 ms of launches, 2,000 items a second on the whole GPU, p = 4."""
    host, work = 0.005, processes * (batch / 2000 + 0.0002) / share
    return float((host**4 + work**4) ** 0.25)


def sweep(
    *, batch: float = 32.0, processes: int = 1, gpu: str = "A100-80GB", most: int = 5
) -> SliceWorkload:
    """Times over batches and processes that follow ``saturating_s``."""
    return SliceWorkload(
        name="service", gpu=gpu, batch=batch, processes=processes,
        memory=MemoryNeed(reserved_bytes=4 * GIB),
        points=tuple(
            WholeRun(batch=float(b), processes=n, step_s=saturating_s(b, n))
            for b in (1, 2, 4, 8, 16, 32, 64, 128)
            for n in range(1, most + 1)
        ),
    )  # fmt: skip


def jitter(workload: SliceWorkload, size: float) -> SliceWorkload:
    """The same with times that follow no load model: every second one is off by ``size`` in log."""
    points = tuple(
        p.model_copy(update={"step_s": p.seconds * math.exp(size if i % 2 else -size)})
        for i, p in enumerate(workload.points)
    )
    return workload.model_copy(update={"points": points})
