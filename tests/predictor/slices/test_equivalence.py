"""Batch equivalence: a slice takes as long for a batch as the whole GPU for a larger one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from slice_workloads import saturating_s, sweep

from berth.predictor.families.slices.bundle import LARGE_BATCH, MethodEntry, load
from berth.predictor.families.slices.equivalence import Curve
from berth.predictor.families.slices.physics import SliceShare
from berth.predictor.families.slices.predictor import BATCHES, SWEEP, SlicePredictor
from berth.predictor.families.slices.sweep import Load, SeenProbe, probe_factor
from berth.predictor.families.slices.workload import SliceProbe, WholeRun

SHARES = np.array([0.15, 0.3, 0.5, 1.0])
PREDICTOR = SlicePredictor(load())


def curve(*batches: int) -> Curve:
    made = Curve.of([WholeRun(batch=float(b), step_s=saturating_s(b, 1)) for b in batches], 1)
    assert made is not None
    return made


def test_a_slice_is_as_slow_as_the_whole_gpu_with_a_larger_batch() -> None:
    (log,) = curve(8, 16, 32, 64).log_slowdowns(16, np.array([0.5]))
    assert log == pytest.approx(math.log(saturating_s(32, 1) / saturating_s(16, 1)))


def test_it_is_between_the_whole_gpu_and_the_share_and_falls_with_the_share() -> None:
    logs = curve(1, 4, 16, 64).log_slowdowns(64, SHARES)
    assert logs[-1] == 0
    assert np.all(np.diff(logs) <= 0)
    assert np.all(logs <= -np.log(SHARES) + 1e-12)


def test_beyond_the_largest_batch_the_slope_lies_between_the_last_one_and_proportional() -> None:
    flat = Curve.of([WholeRun(batch=b, step_s=0.01) for b in (1.0, 2.0)], 1)
    assert flat is not None
    (log,) = flat.log_slowdowns(2, np.array([0.25]))
    assert log == pytest.approx(math.log(4) / 2)
    assert flat.unsure(2, np.array([0.25]))[0] == pytest.approx(math.log(4) / 2)
    steep = Curve.of([WholeRun(batch=b, step_s=b) for b in (1.0, 2.0)], 1)
    assert steep is not None
    assert steep.log_slowdowns(2, np.array([0.25]))[0] == pytest.approx(math.log(4))
    assert steep.unsure(2, np.array([0.25]))[0] == 0


def test_one_batch_or_other_processes_say_nothing() -> None:
    assert Curve.of([WholeRun(batch=8.0, step_s=1.0)], 1) is None
    assert Curve.of([WholeRun(batch=b, step_s=1.0) for b in (8.0, 16.0)], 2) is None


def test_a_probe_scales_all_slices_and_a_slice_that_is_not_slowed_down_tells_little() -> None:
    def factor(predicted: float, measured: float) -> float:
        seen = SeenProbe(Load(1, 1, None), 0.5, measured)
        return probe_factor([seen], lambda _, effective: np.full(len(effective), predicted))

    assert factor(1.0, 0.5) == pytest.approx(0.5, rel=0.01)
    assert factor(0.01, 0.05) == pytest.approx(1.0, abs=0.2)
    assert 0 <= factor(1.0, -0.1) < 0.01


def test_large_batches_are_never_surer() -> None:
    for large, width in ((0.1, 0.2), (0.4, 0.4), (None, 0.2)):
        entry = MethodEntry(
            name="m", rows=1, models=1, data="d", width=0.2, probed=None, large=large
        )
        assert (entry.width_at(1), entry.width_at(LARGE_BATCH)) == (0.2, width)


def test_times_over_batches_alone_are_enough() -> None:
    workload = sweep(most=1)
    half_and_whole = [SliceShare(3 / 7, 4 / 8), SliceShare(1.0, 1.0)]
    half, whole = PREDICTOR.predict(workload, half_and_whole, gpu="A100-80GB")
    assert (half.method, whole.slowdown.mid) == (BATCHES, 1)
    true = saturating_s(32, 1, 0.488) / saturating_s(32, 1)
    assert half.slowdown.mid == pytest.approx(true, rel=0.05)
    probe = SliceProbe(batch=32, profile="1g.10gb", step_s=saturating_s(32, 1) * 1.5)
    told = workload.model_copy(update={"probes": (probe,)})
    small = SliceShare(1 / 7, 1 / 8)
    plain, moved = (
        PREDICTOR.predict(one, [small], gpu="A100-80GB", probes=probes)[0]
        for one, probes in ((workload, ()), (told, ((small, told.probes[0]),)))
    )
    assert moved.slowdown.mid == pytest.approx(1.5, rel=0.02)
    assert plain.slowdown.mid > 3


def test_one_run_with_two_processes_beside_the_batches_fits_the_load_model() -> None:
    both = sweep(most=2)
    points = tuple(p for p in both.points if p.processes == 1 or p.batch == 32)
    pair = both.model_copy(update={"points": points})
    (made,) = PREDICTOR.predict(pair, [SliceShare(1 / 7, 1 / 8)], gpu="A100-80GB")
    (alone,) = PREDICTOR.predict(sweep(most=1), [SliceShare(1 / 7, 1 / 8)], gpu="A100-80GB")
    assert (made.method, alone.method) == (SWEEP, BATCHES)
    assert made.slowdown.log_width < alone.slowdown.log_width
    true = saturating_s(32, 1, 0.147) / saturating_s(32, 1)
    assert made.slowdown.mid == pytest.approx(true, rel=0.25)
