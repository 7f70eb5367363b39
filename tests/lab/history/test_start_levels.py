"""Levels of the intervals of starts, from the starts that are known so far."""

from __future__ import annotations

import pytest

from berth.policies.replay.live import Levels
from lab.history.start_levels import ConformalLevels


def test_levels_follow_the_starts_that_are_known_and_those_that_are_late() -> None:
    levels = ConformalLevels()
    assert levels.at(0.0, 3) == Levels()
    for moment in range(60):
        now_s = 1_000.0 * moment
        number = levels.made(now_s, 600.0, 1_200.0, 3)
        levels.started(number, 60.0)  # (600 + 60) / (60 + 60)
    after = levels.at(60_000.0, 3)
    assert after.earlier == pytest.approx(5.5)
    assert after.later <= 1.0
    assert levels.at(60_000.0, 100).earlier == pytest.approx(5.5)
    late = ConformalLevels()
    for moment in range(240):
        late.made(10.0 * (moment // 4), 0.0, 60.0, 3)
    # Nothing has started: those that are overdue count, and wait on.
    assert late.at(10_000.0, 3).later > 50.0
    assert late.at(10_000.0, 3).earlier < 1.0
