"""Which guess is given to whom."""

from __future__ import annotations

import math

from berth.predictor.learning.history.run_time import RecentAccuracy


def test_each_user_gets_the_guess_that_was_best_for_them() -> None:
    choice = RecentAccuracy()
    for _ in range(50):
        choice.learn("alice", (0.0, 2.0, 5.0), 2.0)
        choice.learn("bob", (0.0, 2.0, 5.0), 5.0)
    assert (choice.of("alice"), choice.of("bob")) == (1, 2)


def test_habits_change_and_a_new_user_gets_the_first_at_the_beginning() -> None:
    choice = RecentAccuracy()
    assert choice.of("carol") == 0
    for real in (0.0, 1.0):
        for _ in range(300):
            choice.learn("alice", (0.0, 1.0, math.log(1e9)), real)
        assert choice.of("alice") == int(real)
