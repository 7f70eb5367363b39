"""The MIG profile of a model graph and the words for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.errors import BerthError
from berth.policies.mig import known_gpus, lookup
from berth.policies.mig.by_memory import profile_for
from berth.predictor.core.prediction import Interval
from berth.predictor.families.slices.manifest import verify
from berth.predictor.footprint.footprint import Fits
from lab.footprint.printed_table import printed_figures

GIB = 2**30
A100 = lookup("A100-40GB")
SHARES = verify().shares


def need(low: float, mid: float, high: float) -> Interval:
    return Interval(low * GIB, mid * GIB, high * GIB)


def test_the_smallest_profile_that_holds_the_upper_end() -> None:
    found = profile_for(need(2.9, 3.3, 3.9), A100, 0.1, SHARES)
    assert found.chosen is not None
    assert found.chosen.profile.name == "1g.5gb"
    assert found.reason.startswith("1g.5gb: 3.3 GiB (2.9 GiB to 3.9 GiB) of 4.8 GiB")
    assert found.by_memory == "1g.5gb"


def test_a_profile_that_only_may_hold_it_is_not_chosen_but_named() -> None:
    found = profile_for(need(4.0, 4.5, 5.5), A100, 0.1, SHARES)
    assert found.chosen is not None
    assert found.chosen.profile.name == "2g.10gb"
    assert "1g.5gb may be too small" in found.reason


def test_launches_that_bound_the_time_are_the_reason_for_a_small_slice() -> None:
    waiting = profile_for(need(1, 2, 3), A100, 0.95, SHARES)
    assert "would run no faster" in waiting.reason
    assert "95% of the time" in waiting.reason
    busy = profile_for(need(1, 2, 3), A100, 0.05, SHARES)
    assert "times as fast" in busy.reason
    assert (waiting.by_utilisation, busy.by_utilisation) == ("1g.5gb", "7g.40gb")


def test_beside_the_same_memory_compute_is_taken_where_it_is_used() -> None:
    busy, waiting = (profile_for(need(5, 6, 7), A100, share, SHARES) for share in (0.05, 0.95))
    assert busy.chosen is not None
    assert waiting.chosen is not None
    assert busy.chosen.profile.name == "2g.10gb"
    assert waiting.chosen.profile.name == "1g.10gb"


@pytest.mark.parametrize(("low", "words"), [(50, "is not enough"), (20, "may not be enough")])
def test_what_not_even_the_whole_gpu_holds_gets_none(low: float, words: str) -> None:
    found = profile_for(need(low, 60, 70), A100, 0.1, SHARES)
    assert found.chosen is None
    assert words in found.reason
    assert found.by_memory is None


@given(st.sampled_from(known_gpus()), st.floats(0.001, 300), st.floats(1, 3), st.floats(0, 1))
def test_on_every_gpu_the_choice_holds_the_need_and_larger_slices_are_no_slower(
    gpu: str, mid: float, spread: float, waiting: float
) -> None:
    wanted = need(mid / spread, mid, mid * spread)
    found = profile_for(wanted, lookup(gpu), waiting, SHARES)
    if found.chosen is not None:
        assert found.chosen.fits is Fits.YES
        assert found.chosen.profile.memory_bytes >= wanted.high
        smaller = [
            s for s in found.slices
            if s.profile.memory_slices < found.chosen.profile.memory_slices
        ]  # fmt: skip
        assert all(s.fits is not Fits.YES for s in smaller)
    else:
        assert all(s.fits is not Fits.YES for s in found.slices)
    assert all(s.slowdown >= 1 - 1e-9 for s in found.slices)


def test_table_4_5_comes_out_as_in_the_thesis_by_every_model_left_out() -> None:
    try:
        cases = printed_figures().cases
    except BerthError as error:
        pytest.skip(error.message)
    mib = 2**20
    right = {}
    for case in cases:
        memory = Interval(case.low * mib, case.mid * mib, case.high * mib)
        found = profile_for(memory, A100, 0.1, SHARES)
        assert found.chosen is not None
        if case.right_profile is not None:
            right[case.model, case.batch] = found.chosen.profile.name == case.right_profile
    assert len(right) == 6
    assert all(right.values())
