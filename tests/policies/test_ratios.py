"""Places are compared by ratios: how long the job itself takes may be unknown."""

from __future__ import annotations

import math

from policy_builders import CPU, cpu, curve, decided, forecast, ranked_as, request

from berth.policies.codes import Code
from berth.policies.settings import PolicySettings
from berth.predictor.core.forecast import Forecast

PLACES = (CPU, cpu("old"))
LISTS = PolicySettings(list_queues=True)
WIDE = 50.0


def kinds(own: float | None, old_s: float = 1280.0) -> Forecast:
    """A program whose time is known to a factor of 50; old nodes take 1.6 times as long as cpu."""
    width = None if own is None else math.log(own)
    return forecast(
        curve("cpu", 800.0, factor=WIDE, own_log_width=width),
        curve("old", old_s, factor=WIDE, own_log_width=width),
    )


def test_a_job_of_unknown_length_goes_where_its_ratio_is_known() -> None:
    decision = decided(None, PLACES, kinds(own=1.1))
    assert decision.chosen == "cpu"
    assert "1.6 times (1.4 to 1.8) faster than old" in decision.reason


def test_a_job_whose_ratio_is_unknown_too_is_left_alone_and_told_so() -> None:
    decision = decided(None, PLACES, kinds(own=None))
    assert decision.chosen is None
    assert decision.code == Code.INTERVAL_TOO_WIDE
    assert "the prediction is too uncertain: 2 s to" in decision.reason
    by_ratio = decided(None, PLACES, kinds(own=8.0))
    assert "too uncertain: within a factor of 8 of other places" in by_ratio.reason
    unknown = (curve(name, 800.0, factor=164.0) for name in ("cpu", "old"))
    hardly = decided(None, PLACES, forecast(*unknown))
    assert "too uncertain: not known to within a factor of 100" in hardly.reason


def test_a_time_limit_is_held_against_the_time_and_not_the_ratio() -> None:
    decision = decided(request(time_limit_s=600.0), PLACES, kinds(own=1.1))
    assert {ranked.code for ranked in decision.ranked} == {Code.TIME_OVER_LIMIT}


def test_a_decision_records_the_width_with_which_its_places_were_compared() -> None:
    decision = decided(None, PLACES, kinds(own=1.1))
    assert math.exp(ranked_as(decision, "old").ratio_log_width) == 1.1
