"""What a run on one platform tells of the others, and which run tells most."""

from __future__ import annotations

import math

import numpy as np
import pytest

from berth.pilot.errors import UsageError
from berth.predictor.families.program.joint import JointTimes, advise, expected_regret


def joint(mean=(0.0, 0.1, 0.2), correlation=0.9, deviation=(0.0, 1.0, 1.0)) -> JointTimes:
    shape = np.full((3, 3), correlation)
    np.fill_diagonal(shape, 1.0)
    spread = np.array(deviation)
    return JointTimes(("cpu", "a", "b"), np.array(mean), shape * spread[:, None] * spread)


def test_a_measured_time_is_known_and_moves_what_goes_along_with_it() -> None:
    after = joint().knowing({"a": math.log(0.2)})
    assert after.mean[1] == pytest.approx(math.log(0.2))
    assert after.deviation[1] == 0
    assert after.mean[2] == pytest.approx(0.2 + 0.9 * (math.log(0.2) - 0.1), abs=0.02)
    assert after.deviation[2] == pytest.approx(math.sqrt(1 - 0.81), abs=0.02)
    assert after.mean[0] == 0


def test_unrelated_platforms_stay_as_they_were() -> None:
    after = joint(correlation=0.0).knowing({"a": 3.0})
    assert after.mean[2] == pytest.approx(0.2)
    assert after.deviation[2] == pytest.approx(1.0)


def test_two_runs_say_the_same_in_either_order() -> None:
    start = joint(correlation=0.5)
    one = start.knowing({"a": 1.0}).knowing({"b": -1.0})
    other = start.knowing({"a": 1.0, "b": -1.0})
    assert one.mean == pytest.approx(other.mean)
    assert one.covariance == pytest.approx(other.covariance, abs=1e-9)


def test_nothing_known_changes_nothing() -> None:
    start = joint()
    assert start.knowing({}) is start


@pytest.mark.parametrize("time", [math.inf, math.nan, -math.inf])
def test_a_time_that_is_none_is_refused(time) -> None:
    with pytest.raises(UsageError, match="time on a"):
        joint().knowing({"a": time})


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(UsageError, match="'tpu' is not among"):
        joint().knowing({"tpu": 1.0})


def test_the_probe_that_decides_is_advised() -> None:
    sure_but_slow = joint(mean=(0.0, 0.0, 3.0), deviation=(0.0, 1.0, 0.1), correlation=0.0)
    advice = advise(sure_but_slow)
    assert advice.one is not None
    assert advice.one.platforms == ("a",)
    assert advice.one.regret < advice.regret
    assert advice.worthwhile


def test_the_expected_regret_is_that_of_two_normals() -> None:
    # E[max(0, z)] of a unit normal: what is lost by never looking at an equal platform.
    found = expected_regret(joint(mean=(0.0, 0.0, 9.0), correlation=0.0, deviation=(0, 1, 0)))
    assert math.log(found) == pytest.approx(1 / math.sqrt(2 * math.pi), abs=0.03)


def test_two_probes_leave_no_more_to_regret_than_one() -> None:
    advice = advise(joint(correlation=0.3))
    assert advice.two is not None
    assert advice.one is not None
    assert advice.two.regret <= advice.one.regret <= advice.regret


def test_a_noisy_probe_is_worth_less() -> None:
    start = joint(correlation=0.0)
    sharp, blurred = advise(start, noise=0.01).one, advise(start, noise=2.0).one
    assert sharp is not None
    assert blurred is not None
    assert sharp.regret < blurred.regret


def test_where_all_is_known_there_is_nothing_to_probe() -> None:
    advice = advise(joint().knowing({"a": 1.0, "b": 1.0}))
    assert advice.one is None
    assert advice.regret == pytest.approx(1.0)
    assert not advice.worthwhile


def test_the_same_question_has_the_same_answer() -> None:
    assert advise(joint(), seed=3) == advise(joint(), seed=3)


def test_expected_regrets_are_scaled_to_what_held_out_applications_had() -> None:
    start = joint()
    scaled = JointTimes(start.platforms, start.mean, start.covariance, 0.5)
    assert math.log(advise(scaled).regret) == pytest.approx(math.log(advise(start).regret) / 2)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="2 platforms"):
        JointTimes(("a", "b"), np.zeros(3), np.eye(2))
