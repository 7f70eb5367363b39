"""Slices by memory alone: a model graph's, the words for it, the rules of the thesis."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import BerthError
from berth.policies.mig import known_gpus, lookup
from berth.policies.mig.by_memory import (
    THESIS_LIMITS_MB,
    profile_for,
    thesis_by_memory,
    thesis_by_utilisation,
)
from berth.predictor.core.prediction import Interval
from berth.predictor.families.slices.bundle import verify
from berth.predictor.footprint.footprint import Fits
from lab.footprint.printed_table import printed_figures

GIB = 2**30
A100 = lookup("A100-40GB")
SHARES = verify().shares


def need(low: float, mid: float, high: float) -> Interval:
    return Interval(low * GIB, mid * GIB, high * GIB)


def test_the_smallest_profile_that_holds_the_upper_end() -> None:
    answer = profile_for(need(2.9, 3.3, 3.9), A100, 0.1, SHARES)
    assert answer.chosen.profile.name == "1g.5gb"
    assert answer.reason.startswith("1g.5gb: 3.3 GiB (2.9 GiB to 3.9 GiB) of 4.8 GiB")
    assert answer.by_memory == "1g.5gb"


def test_a_profile_that_only_may_hold_it_is_not_chosen_but_named() -> None:
    answer = profile_for(need(4.0, 4.5, 5.5), A100, 0.1, SHARES)
    assert answer.chosen.profile.name == "2g.10gb"
    assert "1g.5gb may be too small" in answer.reason


def test_launches_that_bound_the_time_are_the_reason_for_a_small_slice() -> None:
    waiting = profile_for(need(1, 2, 3), A100, 0.95, SHARES)
    assert "would run no faster" in waiting.reason
    assert "95% of the time" in waiting.reason
    busy = profile_for(need(1, 2, 3), A100, 0.05, SHARES)
    assert "times as fast" in busy.reason
    assert (waiting.by_utilisation, busy.by_utilisation) == ("1g.5gb", "7g.40gb")


def test_beside_the_same_memory_compute_is_taken_where_it_is_used() -> None:
    busy, waiting = (profile_for(need(5, 6, 7), A100, share, SHARES) for share in (0.05, 0.95))
    assert busy.chosen.profile.name == "2g.10gb"
    assert waiting.chosen.profile.name == "1g.10gb"


@pytest.mark.parametrize(("low", "words"), [(50, "is not enough"), (20, "may not be enough")])
def test_what_not_even_the_whole_gpu_holds_gets_none(low: float, words: str) -> None:
    answer = profile_for(need(low, 60, 70), A100, 0.1, SHARES)
    assert answer.chosen is None
    assert words in answer.reason
    assert answer.by_memory is None


@given(st.sampled_from(known_gpus()), st.floats(0.001, 300), st.floats(1, 3), st.floats(0, 1))
def test_on_every_gpu_the_choice_holds_the_need_and_larger_slices_are_no_slower(
    gpu: str, mid: float, spread: float, waiting: float
) -> None:
    wanted = need(mid / spread, mid, mid * spread)
    answer = profile_for(wanted, lookup(gpu), waiting, SHARES)
    if answer.chosen is not None:
        assert answer.chosen.fits is Fits.YES
        assert answer.chosen.profile.memory_bytes >= wanted.high
        smaller = [
            s for s in answer.slices
            if s.profile.memory_slices < answer.chosen.profile.memory_slices
        ]  # fmt: skip
        assert all(s.fits is not Fits.YES for s in smaller)
    else:
        assert all(s.fits is not Fits.YES for s in answer.slices)
    assert all(s.slowdown >= 1 - 1e-9 for s in answer.slices)


def test_table_4_5_comes_out_as_in_the_thesis_by_every_model_left_out() -> None:
    try:
        cases = printed_figures().cases
    except BerthError as error:
        pytest.skip(error.message)
    mib = 2**20
    right = {}
    for case in cases:
        memory = Interval(case.low * mib, case.mid * mib, case.high * mib)
        answer = profile_for(memory, A100, 0.1, SHARES)
        assert answer.chosen is not None
        if case.right_profile is not None:
            right[case.model, case.batch] = answer.chosen.profile.name == case.right_profile
    assert len(right) == 6
    assert all(right.values())


PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")
# Model, batch, predicted MB, actual MB on the whole GPU, per cent of each profile that it ran on.
# convnext_base, batch 4: the printed 1,652 MB contradict the printed 61 % of 5 GB; the other
# percentages agree on about 3,050 MB, which stands here.
TABLE_4_5 = (
    ("densenet121", 8, 2865, 3272, (58, 30, 15, 8), "1g.5gb"),
    ("densenet121", 32, 5952, 6294, (None, 60, 30, 16), "2g.10gb"),
    ("swin_base_patch4", 2, 2873, 2944, (52, 27, 14, 7), "1g.5gb"),
    ("swin_base_patch4", 16, 6736, 6156, (None, 59, 30, 15), "2g.10gb"),
    ("convnext_base", 4, 4771, 3050, (61, 31, 16, 8), "1g.5gb"),
    ("convnext_base", 128, 26439, 30996, (None, None, None, 77), "7g.40gb"),
)


def actual(memory_mb: Mapping[str, float]) -> str | None:
    """Table 4.5's "actual" profile: of those it ran on, the one that its memory fills most."""
    filled = {
        profile: memory_mb[profile] / limit
        for profile, limit in THESIS_LIMITS_MB.items()
        if profile in memory_mb and memory_mb[profile] <= limit
    }
    return max(filled, key=lambda profile: filled[profile]) if filled else None


Case = tuple[str, int, int, int, tuple[int | None, ...], str]


@pytest.mark.parametrize("case", TABLE_4_5, ids=lambda case: f"{case[0]}-{case[1]}")
def test_table_4_5_is_reproduced(case: Case) -> None:
    _, _, predicted, real, filled, profile = case
    ran = {
        name: share / 100 * THESIS_LIMITS_MB[name]
        for name, share in zip(PROFILES, filled, strict=True)
        if share is not None
    }
    assert thesis_by_memory(predicted) == profile
    assert actual(ran) == profile
    need = Interval(0.9 * real * 1e6, real * 1e6, real * 1e6)
    smallest = next(n for n in PROFILES if need.high <= A100.profile(n).memory_bytes)
    assert smallest == profile


def test_the_printed_memory_of_convnext_base_at_batch_4_contradicts_its_percentages() -> None:
    # 61, 31, 16 and 8 % of 5, 10, 20 and 40 GB.
    meant = [0.61 * 5000, 0.31 * 10000, 0.16 * 20000, 0.08 * 40000]
    assert min(meant) > 1.8 * 1652


@pytest.mark.parametrize("exact", [0, 5000, 10000, 20000, 40000])
def test_equation_4_2_has_holes_at_its_own_limits(exact: float) -> None:
    assert thesis_by_memory(exact) is None


@given(st.floats(0.1, 60000))
def test_elsewhere_equation_4_2_is_the_smallest_profile_that_is_large_enough(mb: float) -> None:
    answer = thesis_by_memory(mb)
    larger = [name for name, limit in THESIS_LIMITS_MB.items() if mb < limit]
    assert answer in ({larger[0], None} if larger else {None})
    assert answer is not None or mb in {5000.0, 10000.0, 20000.0} or mb >= 40000


@pytest.mark.parametrize(
    ("used", "profile"),
    [(0.011, "1g.5gb"), (0.2499, "1g.5gb"), (0.25, "2g.10gb"), (0.49, "2g.10gb"),
     (0.5, "3g.20gb"), (0.75, "7g.40gb"), (1.0, "7g.40gb")],
)  # fmt: skip
def test_the_utilisation_rule(used: float, profile: str) -> None:
    assert thesis_by_utilisation(used) == profile
