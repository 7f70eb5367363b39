"""The load model of slices: bounded, monotone, exact at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slice_workloads import saturating_s

from berth.pilot.errors import UsageError
from berth.predictor.families.slices import sweep
from berth.predictor.families.slices.physics import (
    MeasuredShare,
    ShareModel,
    SliceShare,
    launch_share,
    log_slowdown,
    log_smooth_max,
)

latents = st.floats(-5, 4)
effectives = st.floats(0.05, 1.0)
sharp = st.floats(1.0, 8.0)
shares = st.floats(0.05, 1.0)
LAW = ShareModel(
    measured=(MeasuredShare(compute=1 / 7, memory=1 / 8, effective=0.147),),
    scale=1.08, memory_weight=0.34,
)  # fmt: skip


@given(latents, effectives, sharp)
def test_a_slice_is_never_faster_nor_slower_than_its_share(
    latent: float, effective: float, p: float
) -> None:
    log = float(log_slowdown(np.array([latent]), effective, p)[0])
    assert -1e-9 <= log <= -math.log(effective) + 1e-9


@given(latents, effectives, effectives, sharp)
def test_less_of_a_gpu_is_never_faster(latent: float, a: float, b: float, p: float) -> None:
    small, large = sorted((a, b))
    at = np.array([latent])
    assert log_slowdown(at, small, p)[0] >= log_slowdown(at, large, p)[0] - 1e-12


@given(latents, latents, effectives, sharp)
def test_more_work_for_the_gpu_is_stretched_more(a: float, b: float, e: float, p: float) -> None:
    light, heavy = sorted((a, b))
    assert log_slowdown(np.array([heavy]), e, p)[0] >= log_slowdown(np.array([light]), e, p)[0] - (
        1e-12
    )


@given(st.floats(-50, 50), st.floats(-50, 50), sharp)
def test_the_smooth_maximum_is_between_maximum_and_sum(a: float, b: float, p: float) -> None:
    value = float(log_smooth_max(np.array([a]), np.array([b]), p)[0])
    assert max(a, b) - 1e-9 <= value <= float(np.logaddexp(a, b)) + 1e-9


@given(latents, effectives, sharp)
def test_the_launch_share_is_a_share(latent: float, effective: float, p: float) -> None:
    assert 0 <= launch_share(latent, effective, p) <= 1


@given(shares, shares)
def test_an_effective_share_is_a_share(compute: float, memory: float) -> None:
    assert 0 < LAW.effective(SliceShare(compute, memory)) <= 1


def test_the_whole_gpu_is_itself_and_measured_shares_win() -> None:
    assert LAW.effective(SliceShare(1, 1)) == 1
    assert LAW.effective(SliceShare(1 / 7, 1 / 8)) == 0.147
    assert LAW.knows(SliceShare(1 / 7, 1 / 8))
    assert not LAW.knows(SliceShare(1 / 7, 1 / 4))


@pytest.mark.parametrize("compute", [0.0, -1.0, 1.5, math.nan])
def test_shares_outside_a_gpu_are_refused(compute: float) -> None:
    with pytest.raises(ValueError, match="shares"):
        SliceShare(compute, 0.5)


def grid() -> tuple[list[float], list[int]]:
    pairs = [(float(b), n) for b in (1, 2, 4, 8, 16, 32, 64, 128) for n in (1, 2, 3, 4, 5)]
    return [b for b, _ in pairs], [n for _, n in pairs]


def test_a_known_load_model_is_found_again() -> None:
    batch, processes = grid()
    load_model = sweep.fit(
        batch, processes, [saturating_s(b, n) for b, n in zip(batch, processes, strict=True)]
    )
    assert load_model.misfit < 0.01
    for share in (1 / 7, 2 / 7, 0.5, 1.0):
        for b, n in ((1, 1), (16, 1), (128, 1), (16, 3), (128, 5)):
            arrays = (np.array([float(b)]), np.array([float(n)]), np.array([share]))
            said = float(np.exp(load_model.log_time(*arrays)[0]))
            assert said == pytest.approx(saturating_s(b, n, share), rel=0.05)


@settings(deadline=None)
@given(st.floats(1e-6, 1e6))
@pytest.mark.slow
def test_the_unit_of_time_does_not_matter(factor: float) -> None:
    batch = [1.0, 4.0, 16.0, 64.0]
    times = [saturating_s(b, 1) for b in batch]
    arrays = (np.array([16.0]), np.array([1.0]), np.array([0.25]))
    one = sweep.fit(batch, [1] * 4, times).log_time(*arrays)[0]
    other = sweep.fit(batch, [1] * 4, [t * factor for t in times]).log_time(*arrays)[0]
    assert other - one == pytest.approx(math.log(factor), abs=0.05)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 512), st.integers(1, 8), st.floats(1e-5, 1e3)),
                min_size=1, max_size=12))  # fmt: skip
@pytest.mark.slow
def test_any_times_give_a_finite_monotone_load_model_or_a_sentence(
    rows: list[tuple[float, int, float]],
) -> None:
    batch, processes, seconds = ([r[i] for r in rows] for i in range(3))
    if not sweep.can_fit(batch, processes):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="loads"):
            sweep.fit(batch, processes, seconds)  # type: ignore[arg-type]
        return
    load_model = sweep.fit(batch, processes, seconds)  # type: ignore[arg-type]
    times = load_model.log_time(np.full(3, 8.0), np.ones(3), np.array([0.14, 0.5, 1.0]))
    assert np.isfinite(times).all()
    assert (np.diff(times) <= 1e-9).all()


def test_fitting_twice_gives_the_same_numbers() -> None:
    batch, processes = grid()
    times = [saturating_s(b, n) for b, n in zip(batch, processes, strict=True)]
    assert sweep.fit(batch, processes, times) == sweep.fit(batch, processes, times)


def test_too_few_loads_are_refused_with_what_to_measure() -> None:
    with pytest.raises(UsageError, match="too few") as raised:
        sweep.fit([1.0, 2.0], [1, 1], [0.1, 0.2])
    assert "4 batches" in (raised.value.hint or "")
