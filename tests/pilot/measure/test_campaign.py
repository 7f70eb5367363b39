"""A campaign measures one repetition of each kernel; medians and spreads of its times."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors.base import emulated
from berth.pilot.native import repeats_for, runtime_of
from berth.pilot.profile import read_profiles
from berth.pilot.suite import Suite
from lab.kernels import campaign
from lab.kernels.campaign import pilot_of, profile_name, subtract, write_profiles

N = 65_536


@pytest.mark.slow
@pytest.mark.valgrind
def test_counts_are_of_one_repetition(
    suite: Suite, tmp_path: Path, valgrind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.jsonl"
    monkeypatch.setattr(campaign, "build_suite", lambda: suite)
    words = ["--kernels", "Stream_TRIAD", "--sizes", str(1 << 62), "--sizes", str(N), "-o", path]
    said = CliRunner().invoke(campaign.main, list(map(str, words)))
    assert said.exit_code == 0
    assert "failed: Stream_TRIAD-4611686018427387904: " in said.output
    (profile,) = read_profiles(path)
    assert profile.name == profile_name("Stream_TRIAD", N)
    assert profile.value("fp64_ops") == pytest.approx(2 * N, rel=0.01)
    assert profile.value("load_bytes") == pytest.approx(16 * N, rel=0.03)
    assert profile.value("gpu_kernels") == 1
    assert profile.value("dram_bytes") is not None
    assert profile.runtime is not None
    assert (profile.peak_memory_bytes or 0) > 3 * 8 * N
    assert [point.size for point in profile.sizes] == [N]
    write_profiles(tmp_path / "copy.jsonl", [profile])
    assert read_profiles(tmp_path / "copy.jsonl") == [profile]


@pytest.mark.slow
@pytest.mark.valgrind
@pytest.mark.parametrize(
    ("kernel", "regions", "atomics"),
    [("Basic_PI_ATOMIC", 1, N), ("Basic_PI_REDUCE", 1, 0), ("Apps_ENERGY", 6, 0)],
)
def test_the_openmp_build_shows_atomic_updates_and_parallel_regions(
    suite: Suite, valgrind: None, kernel: str, regions: int, atomics: int
) -> None:
    if suite.openmp is None:
        pytest.skip(f"no OpenMP here: {suite.openmp_problem}")
    profile = pilot_of(suite, suite.chosen((kernel,))[0], N, "here")
    assert profile.value("parallel_regions") == regions
    assert profile.value("atomic_ops") == pytest.approx(atomics, rel=0.01, abs=500)


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**12), min_size=1)


@given(counts, counts, st.floats(0.001, 1))
def test_a_difference_is_never_negative_and_scales(
    one: dict[str, int], none: dict[str, int], fraction: float
) -> None:
    def made(values: dict[str, int]) -> dict[str, object]:
        return {name: emulated("x", value, None, complete=True) for name, value in values.items()}

    found = subtract(made(one), made(none), fraction)  # type: ignore[arg-type]
    assert set(found) == set(one) & set(none)
    for name, measurement in found.items():
        expected = max(0, one[name] - none[name]) / fraction
        assert measurement.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first_s", "wanted", "repeats"), [(0.1, None, 2), (30, None, 1), (0.1, 3, 3), (100, 3, 3)]
)
def test_long_programs_are_run_once_unless_more_is_asked_for(
    first_s: float, wanted: int | None, repeats: int
) -> None:
    assert repeats_for(first_s, wanted) == repeats


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_the_median_lies_within_the_repeats_and_the_spread_within_their_range(
    times: list[float],
) -> None:
    runtime = runtime_of(times)
    assert min(times) <= runtime.median_s <= max(times)
    assert 0 <= runtime.spread_s <= (max(times) - min(times)) * 1.000001


def test_a_time_below_the_clocks_step_is_still_a_time() -> None:
    assert runtime_of([0.0, 0.0]).median_s > 0
