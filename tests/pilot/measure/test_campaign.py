"""A campaign measures one repetition of each kernel, resumes, and merges native with emulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.pilot.collectors.base import emulated
from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.native import repeats_for, runtime_of
from berth.pilot.profile import Profile, read_profiles
from berth.pilot.suite import Suite
from lab.kernels.campaign import (
    CampaignOptions,
    profile_name,
    run_campaign,
    subtract,
    write_profiles,
)

N = 65_536


def options(path: Path, **more: object) -> CampaignOptions:
    base = CampaignOptions(path, sizes=(N,), kernels=("Stream_TRIAD",), platform="here")
    return replace(base, **more)  # type: ignore[arg-type]


def by_name(path: Path) -> dict[str, Profile]:
    return {profile.name: profile for profile in read_profiles(path)}


@pytest.mark.slow
@pytest.mark.valgrind
def test_counts_are_of_one_repetition(suite: Suite, tmp_path: Path, valgrind: None) -> None:
    path = tmp_path / "k.jsonl"
    result = run_campaign(options(path), suite)
    assert (result.profiles, result.measured, result.failed) == (1, 1, ())
    profile = by_name(path)[profile_name("Stream_TRIAD", N)]
    assert profile.value("fp64_ops") == pytest.approx(2 * N, rel=0.01)
    assert profile.value("load_bytes") == pytest.approx(16 * N, rel=0.03)
    assert profile.value("gpu_kernels") == 1
    assert profile.value("dram_bytes") is not None
    assert profile.runtime is not None
    assert (profile.peak_memory_bytes or 0) > 3 * 8 * N
    assert [point.size for point in profile.sizes] == [N]


@pytest.mark.valgrind
@pytest.mark.parametrize(
    ("kernel", "regions", "atomics"),
    [("Basic_PI_ATOMIC", 1, N), ("Basic_PI_REDUCE", 1, 0), ("Apps_ENERGY", 6, 0)],
)
def test_the_openmp_build_shows_atomic_updates_and_parallel_regions(
    suite: Suite, tmp_path: Path, valgrind: None, kernel: str, regions: int, atomics: int
) -> None:
    if suite.openmp is None:
        pytest.skip(f"no OpenMP here: {suite.openmp_problem}")
    path = tmp_path / "k.jsonl"
    run_campaign(options(path, kernels=(kernel,), native=False), suite)
    [profile] = read_profiles(path)
    assert profile.value("parallel_regions") == regions
    assert profile.value("atomic_ops") == pytest.approx(atomics, rel=0.01, abs=500)


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_stopped(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "k.jsonl"
    native = options(path, emulated=False)
    said: list[tuple[object, ...]] = []
    run_campaign(native, suite)
    first = path.read_text()
    again = run_campaign(native, suite, lambda *what: said.append(what))
    assert (again.measured, said, path.read_text()) == (0, [], first)
    more = run_campaign(replace(native, sizes=(N, 2 * N)), suite, lambda *what: said.append(what))
    assert (more.measured, more.profiles) == (1, 2)
    assert said == [("Stream_TRIAD-131072", 1, 2)]
    sizes = [[point.size for point in p.sizes] for p in by_name(path).values()]
    assert sizes == [[N, 2 * N]] * 2


@pytest.mark.slow
@pytest.mark.valgrind
def test_native_and_emulated_parts_merge_in_either_order(
    suite: Suite, tmp_path: Path, valgrind: None
) -> None:
    path = tmp_path / "k.jsonl"
    run_campaign(options(path, native=False), suite)
    [counted] = read_profiles(path)
    assert counted.runtime is None
    run_campaign(options(path, emulated=False), suite)
    [both] = read_profiles(path)
    assert both.runtime is not None
    assert both.value("instructions") == counted.value("instructions")
    refreshed = run_campaign(options(path, emulated=False, refresh=True), suite)
    assert refreshed.measured == 1
    assert read_profiles(path)[0].value("instructions") == counted.value("instructions")


def test_a_file_that_is_no_campaign_is_refused_naming_the_line(
    suite: Suite, tmp_path: Path
) -> None:
    path = tmp_path / "k.jsonl"
    path.write_text('{"schema": "berth.profile/1"}\n')
    with pytest.raises(DocumentError, match="line 1"):
        run_campaign(options(path), suite)
    assert path.read_text() == '{"schema": "berth.profile/1"}\n'


def test_an_unknown_kernel_is_refused(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel"):
        run_campaign(options(tmp_path / "k", kernels=("Stream_TRIADE",)), suite)


def test_a_kernel_that_cannot_run_does_not_stop_the_others(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "k.jsonl"
    result = run_campaign(options(path, emulated=False, sizes=(1 << 62, N)), suite)
    assert result.measured == 1
    assert len(result.failed) == 1
    assert result.failed[0].startswith("Stream_TRIAD-4611686018427387904: ")


def test_written_profiles_are_read_back_equal(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "k.jsonl"
    run_campaign(options(path, emulated=False), suite)
    before = read_profiles(path)
    write_profiles(tmp_path / "copy.jsonl", before)
    assert read_profiles(tmp_path / "copy.jsonl") == before


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
