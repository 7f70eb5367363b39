"""Slices for workloads of every kind: between the load model's bounds, in order, whoever asks."""

from __future__ import annotations

import math

import pytest
from every_kind import workloads
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.predictor.core.family import Adjusted, Question
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.families.slices.bundle import verify
from berth.predictor.families.slices.physics import share_of
from berth.predictor.families.slices.projected import SLACK, projected
from berth.predictor.hardware import platforms
from berth.predictor.hardware.mig.slices import every_slice, slice_of

KNOWN = {**{p.name: p for p in every_slice(platforms.load())}, **platforms.load()}
OF_A100 = {name: p for name, p in KNOWN.items() if name.startswith("a100-40gb")}
WORKLOADS = workloads("quartz", "a100-40gb", "A100-40GB")
FORECASTER = Forecaster()
KINDS = ("inference", "training", "service")


def point(platform: str, seconds: float, basis: Basis = Basis.SCALED) -> PredictionCurve:
    return PredictionCurve(
        (
            Prediction(
                "w", platform, 1, 1, basis, Interval(1, 1, 1),
                Interval(seconds / 1.2, seconds, seconds * 1.2),
                MemoryUse(gpu_bytes=Interval(0, 1, 2)), None, Bound.UNKNOWN,
            ),
        )
    )  # fmt: skip


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.floats(0.01, 1000), min_size=len(OF_A100), max_size=len(OF_A100)))
def test_no_slice_is_faster_than_a_larger_one_or_slower_than_its_share(times: list[float]) -> None:
    curves = {name: point(name, s) for name, s in zip(OF_A100, times, strict=True)}
    question = Question(WORKLOADS["inference"], OF_A100, KNOWN)
    made = projected(question, {}, Adjusted(curves, {})).curves
    whole = made["a100-40gb"].points[0].runtime_s
    assert made["a100-40gb"] == curves["a100-40gb"]
    shares = verify().shares
    seen = []
    for name, platform in OF_A100.items():
        cut = slice_of(platform)
        if cut is not None:
            share, one = share_of(*cut), made[name].points[0].runtime_s
            ratio = math.log(one.mid / whole.mid)
            assert -1e-9 <= ratio <= -math.log(shares.effective(share)) + 1e-9
            assert one.high / whole.high <= math.exp(SLACK) / shares.effective(share) + 1e-9
            seen.append((share, one.mid))
    for small, slow in seen:
        assert all(slow >= fast * (1 - 1e-9) for large, fast in seen if small.within(large))


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_is_the_same_whoever_else_is_asked_for(kind: str) -> None:
    every = FORECASTER.forecast(WORKLOADS[kind], OF_A100, KNOWN)
    for name in ("a100-40gb-mig-3g.20gb", "a100-40gb-mig-4g.20gb"):
        alone = FORECASTER.forecast(WORKLOADS[kind], {name: KNOWN[name]}, KNOWN)
        assert alone.curves[name].points[0].runtime_s == every.curves[name].points[0].runtime_s
    three, four = (every.curves[f"a100-40gb-mig-{n}.20gb"].points[0] for n in ("3g", "4g"))
    assert three.runtime_s.mid >= four.runtime_s.mid


def test_a_language_model_is_predicted_on_slices_that_hold_it() -> None:
    found = FORECASTER.forecast(WORKLOADS["service"], OF_A100, KNOWN)
    large, small = (found.curves[f"a100-40gb-mig-{n}"].points[0] for n in ("3g.20gb", "1g.5gb"))
    assert large.abstained is None
    assert large.basis is Basis.SCALED
    assert "does not fit" in str(small.abstained)


def test_what_was_measured_on_a_slice_stays() -> None:
    curves = {
        "a100-40gb": point("a100-40gb", 1.0, Basis.MEASURED),
        "a100-40gb-mig-1g.5gb": point("a100-40gb-mig-1g.5gb", 90.0, Basis.MEASURED),
    }
    question = Question(WORKLOADS["inference"], OF_A100, KNOWN)
    made = projected(question, {}, Adjusted(curves, {})).curves
    assert {name: made[name] for name in curves} == curves


def test_a_program_known_from_past_jobs_on_the_whole_gpu_is_between_the_bounds() -> None:
    found = FORECASTER.forecast(WORKLOADS["history"], OF_A100, KNOWN)
    whole, small = (found.curves[name].points[0] for name in ("a100-40gb", "a100-40gb-mig-2g.10gb"))
    assert small.basis is Basis.SCALED
    assert whole.runtime_s.mid < small.runtime_s.mid < whole.runtime_s.mid * 3.4
    assert small.runtime_s.low <= whole.runtime_s.mid
