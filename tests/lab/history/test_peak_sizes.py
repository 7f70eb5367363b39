"""Sizes from past peaks."""

from __future__ import annotations

import math

import pytest

from lab.history.peak_sizes import CAREFUL, PeakPredictor, Sizing

GB = 1e9


def taught(*peaks: float, sizing: Sizing | None = None) -> PeakPredictor:
    found = PeakPredictor(sizing)
    for number, peak in enumerate(peaks):
        found.ended("align", peak, 64 * GB, sample=f"s{number}", runtime_s=100.0)
    return found


def test_nothing_known_asks_for_the_preset() -> None:
    assert PeakPredictor().size("align", 64 * GB) == 64 * GB


def test_steady_peaks_are_sized_a_little_above_them() -> None:
    size = taught(*[3 * GB] * 20).size("align", 64 * GB, sample="new")
    assert 3 * GB < size < 5 * GB


def test_peaks_that_vary_need_more_room() -> None:
    steady = taught(*[3 * GB] * 10).size("align", 64 * GB)
    varied = taught(*[1 * GB, 9 * GB] * 5).size("align", 64 * GB)
    assert varied > 2 * steady


def test_another_task_of_the_sample_tells_its_size() -> None:
    predictor = PeakPredictor()
    for number in range(12):
        sample, scale = f"s{number}", 1 + number % 4
        predictor.ended("index", scale * GB, 64 * GB, sample=sample, runtime_s=10.0)
        predictor.ended("align", 3 * scale * GB, 64 * GB, sample=sample, runtime_s=10.0)
    for sample, scale in (("small", 1), ("large", 4)):
        predictor.ended("index", scale * GB, 64 * GB, sample=sample, runtime_s=10.0)
    small = predictor.size("align", 64 * GB, sample="small")
    large = predictor.size("align", 64 * GB, sample="large")
    assert 3 * GB < small < 6 * GB < 12 * GB < large


def test_careful_is_never_below_the_largest_and_waits_for_five_runs() -> None:
    assert taught(*[3 * GB] * 4, sizing=CAREFUL).size("align", 64 * GB) == 64 * GB
    peaks = [1 * GB, 2 * GB, 30 * GB, *[1 * GB] * 30]
    assert taught(*peaks, sizing=CAREFUL).size("align", 64 * GB) >= 1.05 * 30 * GB * 0.999


def test_caution_asks_for_more() -> None:
    peaks = [1 * GB, 2 * GB, 1.5 * GB, 3 * GB]
    sizes = [
        taught(*peaks, sizing=Sizing(caution=c)).size("align", 64 * GB) for c in (1.0, 5.0, 50.0)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


@pytest.mark.parametrize("peak", [0.0, -1.0, math.nan, math.inf])
def test_peaks_that_were_not_measured_teach_nothing(peak: float) -> None:
    assert taught(peak).size("align", 64 * GB) == 64 * GB
