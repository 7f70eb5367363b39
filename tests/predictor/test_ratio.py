"""Ratios between platforms: the error that all places share is not in their intervals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from berth.predictor.core.combine import SourceEstimate, combine
from berth.predictor.core.forecast import Forecast
from berth.predictor.core.intervals import around
from berth.predictor.core.nodes import NodeRatio, NodeScaling
from berth.predictor.core.prediction import (
    Basis,
    Bound,
    Interval,
    MemoryUse,
    Prediction,
    PredictionCurve,
)
from berth.predictor.core.sizes import SizeGrowth
from berth.predictor.learning.evidence import Evidence, run_of
from berth.predictor.learning.learnt import SiteEvidence, learnt_forecast

WIDE, NARROW = math.log(50.0), math.log(1.1)


def point(platform: str, seconds: float, own: float | None, cores: int = 1) -> Prediction:
    """A program whose own time is known to a factor of 50."""
    return Prediction(
        workload="lu",
        platform=platform,
        cores=cores,
        gpus=0,
        basis=Basis.LEARNED,
        speedup=Interval(1.0, 1.0, 1.0),
        runtime_s=around(seconds, WIDE),
        memory=MemoryUse(),
        energy_j=None,
        bound=Bound.UNKNOWN,
        own_log_width=own,
    )


def forecast(own: float | None, nodes: NodeScaling | None = None) -> Forecast:
    """160 s on the old kind of node and 100 s on the new one, on one core; half on four."""
    curves = {
        name: PredictionCurve((point(name, s, own), point(name, s / 2, own, cores=4)))
        for name, s in (("old", 160.0), ("new", 100.0))
    }
    return Forecast(
        workload="lu",
        kind="history",
        digest="sha256:0",
        bundle="",
        targets=("cpu",),
        architecture="x86_64",
        instruction_sets=(),
        threads=1,
        ranks=1,
        gpus=0,
        container=None,
        reference_platform="old",
        reference_runtime_s=None,
        sizes=SizeGrowth(None, None),
        curves=curves,
        nodes=nodes,
    )


def test_a_ratio_is_as_narrow_as_the_errors_that_the_places_do_not_share() -> None:
    ratio = forecast(NARROW).ratio("new", 1, "old", 1)
    assert ratio is not None
    assert ratio.mid == pytest.approx(1.6)
    assert ratio.half_log_width == pytest.approx(math.hypot(NARROW, NARROW))
    assert forecast(NARROW).runtime_at("new", 1) == around(100.0, WIDE)


def test_without_a_shared_part_the_whole_error_counts() -> None:
    ratio = forecast(None).ratio("new", 1, "old", 1)
    assert ratio is not None
    assert ratio.half_log_width == pytest.approx(math.hypot(WIDE, WIDE))


def test_an_own_part_wider_than_the_whole_counts_as_the_whole() -> None:
    assert point("new", 1.0, 2 * WIDE).ratio_log_width == pytest.approx(WIDE)


def test_a_platform_is_exactly_once_as_fast_as_itself() -> None:
    assert forecast(None).ratio("old", 2, "old", 2) == Interval(1.0, 1.0, 1.0)
    assert forecast(NARROW).ratio("old", 1, "unknown", 1) is None


def test_ratios_between_grid_points_keep_their_width() -> None:
    ratio = forecast(NARROW).ratio("new", 2, "old", 2)
    assert ratio is not None
    assert ratio.mid == pytest.approx(1.6)
    assert ratio.half_log_width == pytest.approx(math.hypot(NARROW, NARROW))


def test_what_nodes_add_to_the_error_counts_in_the_ratio() -> None:
    doubled = (NodeRatio(2, Interval(0.5, 0.6, 0.72), Interval(1.0, 1.0, 1.0)),)
    scaling = NodeScaling((1, 2), weak=False, measured_on="old", ratios={"old": doubled})
    known = forecast(NARROW, scaling)
    on_two = known.prediction("old", 2, 2)
    assert on_two is not None
    assert on_two.ratio_log_width == pytest.approx(NARROW + doubled[0].time.half_log_width)


@pytest.mark.parametrize("own", [None, NARROW])
def test_the_own_part_survives_the_store(own: float | None) -> None:
    stored = forecast(own).to_json()
    read = Forecast.from_json(stored)
    assert read.to_json() == stored
    width = read.curves["new"].points[0].own_log_width
    assert width == (None if own is None else pytest.approx(own, rel=1e-5))


def test_combined_sources_keep_the_share_of_the_own_error() -> None:
    sources = [
        SourceEstimate("a", around(100.0, 1.0), Basis.LEARNED, own_log_width=0.2),
        SourceEstimate("b", around(110.0, 1.0), Basis.LEARNED, own_log_width=0.4),
    ]
    combined = combine(sources)
    assert combined.own_log_width == pytest.approx(0.3 * combined.seconds.half_log_width, rel=1e-6)
    assert combine([replace(s, own_log_width=None) for s in sources]).own_log_width is None
    half = combine([sources[0], replace(sources[1], own_log_width=None)])
    assert half.own_log_width == pytest.approx(0.6 * half.seconds.half_log_width, rel=1e-6)


def learnt(own: float | None, *runs_on_old_s: float) -> Forecast:
    """The forecast after runs of the program on one core of the old nodes."""
    base = forecast(own)
    runs = [
        run_of(Evidence(str(n), "ada", "lu", "", "old", 1, 0, None, seconds, 0.0), base)
        for n, seconds in enumerate(runs_on_old_s)
    ]
    return learnt_forecast(base, [run for run in runs if run is not None], SiteEvidence())


def test_a_run_on_one_kind_of_node_tells_the_time_on_the_other() -> None:
    for name, seconds in (("old", 16.0), ("new", 10.0)):
        before = forecast(NARROW).runtime_at(name, 1)
        after = learnt(NARROW, 16.0, 16.1, 15.9).runtime_at(name, 1)
        assert before is not None
        assert after is not None
        assert after.mid == pytest.approx(seconds, rel=0.15)
        assert after.half_log_width < before.half_log_width / 5


def test_without_a_shared_part_a_run_there_says_little_of_the_time_elsewhere() -> None:
    after = learnt(None, 16.0, 16.1, 15.9).runtime_at("new", 1)
    assert after is not None
    assert after.mid > 15.0
    assert after.half_log_width > 1.0


def test_runs_leave_the_ratio_at_most_as_uncertain_as_it_was() -> None:
    after = learnt(NARROW, 16.0, 16.1, 15.9).ratio("new", 1, "old", 1)
    before = forecast(NARROW).ratio("new", 1, "old", 1)
    assert after is not None
    assert before is not None
    assert after.mid == pytest.approx(1.6, rel=0.1)
    assert after.half_log_width < 1.05 * before.half_log_width


def after_a_job_at_home(took_s: float) -> Forecast:
    """A pilot of 3 s on the old nodes, 2 s predicted on the new ones; then a job on the old."""
    old = replace(point("old", 3.0, None), runtime_s=around(3.0, 0.03), basis=Basis.MEASURED)
    new = replace(point("new", 2.0, None), runtime_s=around(2.0, 0.6), basis=Basis.PRIOR)
    curves = {p.platform: PredictionCurve((p,)) for p in (old, new)}
    base = replace(forecast(None), curves=curves)
    run = run_of(Evidence("1", "ada", "lu", "", "old", 1, 0, None, took_s, 0.0), base)
    assert run is not None
    return learnt_forecast(base, [run], SiteEvidence())


@pytest.mark.parametrize("took_s", [3.0, 3.7, 6.2])
def test_a_job_where_the_pilot_ran_says_nothing_against_the_forecasts_elsewhere(
    took_s: float,
) -> None:
    time = after_a_job_at_home(took_s).runtime_at("new", 1)
    assert time is not None
    assert time.half_log_width < 1.2 * 0.6
    assert 2.0 <= time.mid <= 2.0 * took_s / 3.0


def test_a_job_far_from_its_pilot_moves_all_platforms_alike() -> None:
    learnt_times = after_a_job_at_home(6.2)
    here, there = learnt_times.runtime_at("old", 1), learnt_times.runtime_at("new", 1)
    assert here is not None
    assert there is not None
    assert here.mid > 5.0
    assert here.mid / there.mid == pytest.approx(1.5, rel=0.02)


def test_a_job_in_whole_seconds_as_long_as_its_pilot_narrows_nothing() -> None:
    here = after_a_job_at_home(3.0).runtime_at("old", 1)
    assert here is not None
    assert here.mid == pytest.approx(3.0)
    assert here.high / here.mid > 1.1
