"""The posterior of finished jobs: what moves it, what does not, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from berth.predictor.learning.cells import (
    SHIPPED,
    Cell,
    Hardware,
    RunResidual,
    RunShape,
    covariance,
)
from berth.predictor.learning.effects import Information, effects_of
from berth.predictor.learning.evidence import clock_deviation
from berth.predictor.learning.posterior import MOST_RUNS, Posterior
from berth.predictor.learning.surprises import (
    FEWEST,
    NORMAL_90,
    ChangePoint,
    Cusum,
    OnlineLevel,
    holding,
)

CPU, GPU, OTHER_GPU = Hardware("c", "cpu"), Hardware("g", "gpu"), Hardware("h", "gpu")


def cell(place: Hardware = CPU, deviation: float = 0.2, **other: float) -> Cell:
    return Cell(place, RunShape("", **other), deviation)


def runs(*residuals: float, place: Hardware = CPU, **other: float) -> list[RunResidual]:
    return [RunResidual(cell(place, **other), one) for one in residuals]


def test_without_runs_it_is_the_forecast() -> None:
    found = Posterior([]).expected([cell(deviation=0.3), cell(GPU, 0.1)])
    assert found.mean.tolist() == [0.0, 0.0]
    assert found.deviation == pytest.approx(np.hypot([0.3, 0.1], SHIPPED.run_noise))
    assert SHIPPED.total == pytest.approx(1.0)


def test_what_is_nearer_is_told_more() -> None:
    posterior = Posterior(runs(0.3, 0.31, 0.29, place=GPU))
    here, sibling, kind, size = (
        posterior.expected([target])
        for target in (cell(GPU), cell(OTHER_GPU), cell(CPU), cell(GPU, log_size=5.0))
    )
    assert here.mean[0] == pytest.approx(0.3, abs=0.03)
    assert here.mean[0] > sibling.mean[0] > kind.mean[0] > 0
    assert here.deviation[0] < sibling.deviation[0] < kind.deviation[0]
    assert here.mean[0] > size.mean[0] > 0


def test_a_forecast_that_claims_too_much_is_given_up() -> None:
    posterior = Posterior([RunResidual(cell(deviation=0.05), one) for one in (1.1, 1.12, 1.09)])
    found = posterior.expected([cell(deviation=0.05), cell(GPU, 0.05)])
    assert found.mean[0] == pytest.approx(1.1, abs=0.05)
    assert found.deviation[1] > 0.15


def test_what_a_sure_forecast_missed_is_not_multiplied_where_another_is_unsure() -> None:
    posterior = Posterior([RunResidual(cell(deviation=0.03), 0.2)] * 3)
    found = posterior.expected([cell(GPU, 0.8), cell(deviation=0.8)])
    assert 0 < found.mean[0] < found.mean[1] < 0.25
    assert found.deviation[0] > 0.7


def test_the_order_of_runs_does_not_matter() -> None:
    some = runs(0.1, 0.3, -0.2) + runs(0.4, place=GPU)
    forth, back = Posterior(some), Posterior(some[::-1])
    targets = [cell(), cell(GPU)]
    assert forth.expected(targets).mean == pytest.approx(back.expected(targets).mean)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([CPU, GPU, OTHER_GPU]),
            st.floats(-12, 12),
            st.floats(0, 3),
            st.booleans(),
            st.floats(0, 2),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_whatever_ran_the_answer_is_finite_and_pulls_add_up(
    jobs: list[tuple[Hardware, float, float, bool, float]],
) -> None:
    made = [RunResidual(Cell(p, RunShape("", s), d), r, cut) for p, r, s, cut, d in jobs]
    posterior = Posterior(made)
    found = posterior.expected([cell(), cell(OTHER_GPU, 2.0)])
    assert np.isfinite(found.mean).all()
    assert (found.deviation > 0).all()
    assert sum(posterior.pulls(cell())) == pytest.approx(found.mean[0], abs=1e-6)
    largest = max(abs(r) for _, r, _, cut, _ in jobs)
    if not any(cut for *_, cut, _ in jobs):
        assert abs(found.mean[0]) <= largest + 0.5


def test_only_the_last_runs_are_looked_at() -> None:
    posterior = Posterior(runs(*[5.0] * 50, *[0.1] * MOST_RUNS))
    assert len(posterior.runs) == MOST_RUNS
    assert posterior.expected([cell()]).mean[0] == pytest.approx(0.1, abs=0.02)


def test_covariances_are_those_of_something() -> None:
    cells = [cell(p, d, log_size=s) for p in (CPU, GPU) for d in (0.1, 0.5) for s in (0.0, 1.0)]
    found = covariance(cells, cells, SHIPPED)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert np.diag(found) == pytest.approx([c.deviation**2 for c in cells])


def test_platforms_are_corrected_by_what_programs_agree_on() -> None:
    keys = [("c", 0), ("g", 0)]
    one = Posterior(runs(1.1, 1.1, place=GPU)).information(keys)
    means = [
        effects_of([(CPU, 0), (GPU, 0)], Information(one.precision * n, one.shift * n)).mean
        for n in (1, 3, 8)
    ]
    assert [m[1] for m in means] == sorted(m[1] for m in means)
    assert means[-1][1] == pytest.approx(1.0, abs=0.25)
    assert abs(means[-1][0]) < 0.05


def test_a_change_is_found_and_an_odd_run_is_none() -> None:
    (found,) = changes([0.1, -0.3, 2.0, -0.9, -0.7, 3.0, 2.5, 3.5, 2.0, 3.0])
    assert found.slower
    assert (found.first, found.seen <= 9) == (5, True)
    (faster,) = changes([0.0] * 5 + [-4.0] * 5)
    assert (faster.first, faster.slower) == (5, False)
    assert changes([50.0, -50.0] * 3) == []


def changes(surprises: Sequence[float]) -> list[ChangePoint]:
    sums = Cusum()
    return [found for one in surprises if (found := sums.add(one)) is not None]


def test_false_alarms_are_rare() -> None:
    rng = np.random.default_rng(0)
    sums = Cusum()
    assert sum(sums.add(float(one)) is not None for one in rng.standard_normal(5_000)) <= 2


def test_the_online_level_holds_nine_in_ten_through_a_shift() -> None:
    rng = np.random.default_rng(1)
    scores = np.concatenate([rng.standard_normal(500), 3 * rng.standard_normal(1500)])
    level = OnlineLevel()
    inside = [level.add(float(one)) for one in scores]
    assert np.mean(inside[700:]) == pytest.approx(0.9, abs=0.04)
    assert NORMAL_90 * level.factor > 2.5


def test_intervals_that_fail_are_told_from_those_that_hold() -> None:
    assert not holding([0.5, -1.0] * 10).fails
    assert not holding([99.0] * (FEWEST - 1)).fails
    assert holding([99.0, -99.0] * 10).fails
    assert not holding([99.0, -99.0] * 10 + [0.3] * 20).fails


def test_a_limit_that_cut_a_job_off_tells_only_upwards() -> None:
    early = Posterior([RunResidual(cell(), -2.0, censored=True)]).expected([cell()]).mean[0]
    late = Posterior([RunResidual(cell(), 1.0, censored=True)] * 3).expected([cell()]).mean[0]
    assert early == pytest.approx(0.0, abs=0.02)
    assert late > 0.9
    assert math.isfinite(late)


def test_a_time_in_whole_seconds_says_less_of_a_short_job() -> None:
    exact = Posterior([RunResidual(cell(), 0.4)]).expected([cell()])
    rounded = Posterior([RunResidual(cell(), 0.4, clock_deviation=0.4)]).expected([cell()])
    assert 0 < rounded.mean[0] < 0.5 * exact.mean[0]
    assert rounded.deviation[0] > exact.deviation[0]
    many = Posterior([RunResidual(cell(), 0.4, clock_deviation=0.4)] * 60).expected([cell()])
    assert many.mean[0] == pytest.approx(0.4, abs=0.1)
    assert many.deviation[0] < rounded.deviation[0]


def test_only_times_without_a_fraction_are_rounded() -> None:
    assert clock_deviation(2.0) == pytest.approx(0.408 / 2, rel=1e-3)
    assert clock_deviation(2.01) == 0.0
    assert clock_deviation(7200.0) < 1e-4
