"""Programs on cards that the bundle has no times of: better than the plain baselines."""

from __future__ import annotations

import math

import pytest

from lab import datasets
from lab.datasets.rajaperf import RAJAPERF
from lab.datasets.rajaperf_gpus import RAJAPERF_GPUS, SYSTEMS, timings
from lab.experiments.experiment import Options
from lab.kernels.unseen_gpus import OURS, evaluate

present = pytest.mark.skipif(
    not all((datasets.folder() / data.path).is_file() for data in (RAJAPERF, RAJAPERF_GPUS)),
    reason=f"needs {RAJAPERF_GPUS.path}: set {datasets.FOLDER_VARIABLE}",
)


@present
def test_each_kernel_has_one_time_at_each_size_of_each_card() -> None:
    found = timings()
    assert len({(t.platform, t.kernel, t.size) for t in found}) == len(found)
    assert {t.platform for t in found} == set(SYSTEMS.values())
    assert len({t.kernel for t in found}) == 8


@present
def test_berth_beats_the_plain_baselines_on_both_cards() -> None:
    report = evaluate(Options())
    cases = report.data["cases"]
    for card in SYSTEMS.values():
        own = [case for case in cases if case["timing"]["platform"] == card]
        errors = {
            method: [
                abs(math.expm1(case["log_predicted"][method] - math.log(case["timing"]["seconds"])))
                for case in own
                if not math.isnan(case["log_predicted"][method])
            ]
            for method in own[0]["log_predicted"]
        }
        medians = {method: sorted(each)[len(each) // 2] for method, each in errors.items()}
        ours = medians.pop(OURS)
        assert ours < 0.25
        assert ours < min(medians.values())
    assert "left out" in report.text()


@present
def test_a_kernels_own_times_do_not_give_its_launch_cost() -> None:
    report = evaluate(Options())
    assert report.data["cases"]
    first = [t for t in timings() if t.platform == "h100-80gb" and t.kernel == "Apps_ENERGY"]
    assert min(t.seconds for t in first) / 6 < 2.3e-6
    case = next(
        c
        for c in report.data["cases"]
        if c["timing"]["kernel"] == "Apps_ENERGY" and c["timing"]["platform"] == "h100-80gb"
    )
    assert math.exp(case["log_predicted"][OURS]) > 6 * 2.6e-6
