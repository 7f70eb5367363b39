"""Expected demands: the rate of the window, below what is queued."""

from __future__ import annotations

import pytest

from berth.pilot.errors import UsageError
from berth.policies.mig import GpuState, lookup
from berth.policies.mig.demands import Arrival, Demand, SliceOption, expected
from berth.policies.mig.planner import plan

SMALL = Demand("small", (SliceOption("1g.5gb"),), count=5, priority=3)
LARGE = Demand("large", (SliceOption("4g.20gb"),))


def test_what_came_in_the_window_is_expected_at_its_rate() -> None:
    history = [Arrival(100.0 * n, SMALL) for n in range(1, 37)]
    history += [Arrival(3600.0, LARGE), Arrival(9999.0, LARGE)]
    found = expected(history, now_s=3600.0, window_s=3600.0, horizon_s=600.0)
    assert [(d.name, d.count, d.priority) for d in found] == [("small", 6, -1)]
    assert expected(history, now_s=99_999.0, window_s=3600.0, horizon_s=600.0) == ()


def test_the_queue_goes_before_what_is_only_expected() -> None:
    outlook = expected(
        [Arrival(n, SMALL) for n in range(1, 8)], now_s=7.0, window_s=7.0, horizon_s=7.0
    )
    made = plan([GpuState("g", lookup("A100-40GB"))], [LARGE, *outlook], "jobs")
    assert made.gpus[0].target.counts() == {"4g.20gb": 1, "1g.5gb": 3}


@pytest.mark.parametrize(("window_s", "horizon_s"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_a_window_or_horizon_of_nothing_is_refused(window_s: float, horizon_s: float) -> None:
    with pytest.raises(UsageError, match="positive"):
        expected([], now_s=0.0, window_s=window_s, horizon_s=horizon_s)
