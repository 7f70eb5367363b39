"""Batch equivalence, alone and beside the load model that is fitted to times over batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from slice_workloads import saturating_s, sweep

from berth.predictor.families.slices.bundle import LARGE_BATCH, MethodEntry, Width, load
from berth.predictor.families.slices.physics import Share
from berth.predictor.families.slices.predictor import BATCHES, SlicePredictor
from berth.predictor.families.slices.sweep import equivalence_log_slowdowns, mixed
from berth.predictor.families.slices.workload import Point

SHARES = np.array([0.15, 0.3, 0.5, 1.0])
PREDICTOR = SlicePredictor(load())


def points(*batches: int) -> list[Point]:
    return [Point(batch=float(b), step_s=saturating_s(b, 1)) for b in batches]


def test_a_slice_is_as_slow_as_the_whole_gpu_with_a_larger_batch() -> None:
    made = equivalence_log_slowdowns(points(8, 16, 32, 64), 16, 1, np.array([0.5]))
    assert made is not None
    assert made[0] == pytest.approx(math.log(saturating_s(32, 1) / saturating_s(16, 1)))


def test_it_is_between_the_whole_gpu_and_the_share_and_falls_with_the_share() -> None:
    made = equivalence_log_slowdowns(points(1, 4, 16, 64), 64, 1, SHARES)
    assert made is not None
    assert made[-1] == 0
    assert np.all(np.diff(made) <= 0)
    assert np.all(made <= -np.log(SHARES) + 1e-12)


def test_one_batch_or_other_processes_say_nothing() -> None:
    assert equivalence_log_slowdowns(points(8), 8, 1, SHARES) is None
    assert equivalence_log_slowdowns(points(8, 16, 32), 8, 2, SHARES) is None


def test_the_two_sources_weigh_alike() -> None:
    logs, weights = mixed(np.array([0.0]), np.array([1.0]))
    assert weights == pytest.approx({"load model": 0.5, "equivalence": 0.5})
    assert logs[0] == pytest.approx(0.5)


def test_large_batches_are_never_surer() -> None:
    width, large = Width(q90=0.2, q95=0.3), Width(q90=0.1, q95=0.4)
    entry = MethodEntry(name="m", rows=1, models=1, data="d", width=width, probed=None, large=large)
    assert entry.width_at(1) == width
    assert entry.width_at(LARGE_BATCH) == Width(q90=0.2, q95=0.4)


def test_times_over_batches_alone_are_told_by_both_sources() -> None:
    workload = sweep(most=1)
    (half, whole) = PREDICTOR.predict(
        workload, [Share(3 / 7, 4 / 8), Share(1.0, 1.0)], gpu="A100-80GB", method=BATCHES
    )
    assert {one.source for one in half.sources} == {"load model", "equivalence"}
    assert whole.slowdown.mid == 1
    true = saturating_s(32, 1, 0.488) / saturating_s(32, 1)
    assert half.slowdown.low <= true <= half.slowdown.high
