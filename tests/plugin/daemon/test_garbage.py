"""Garbage collection in steps between answers: what they free, and what waits for a whole look."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from berth.plugin.daemon.garbage import BUSY_AFTER_S, QUIET_AFTER_S, GarbageCollection


class Cycle:
    """Refers to itself: only the garbage collector frees it."""

    def __init__(self) -> None:
        self.own = self


class Clock:
    """Shows what it is set to."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def garbage(clock: Clock) -> Iterator[GarbageCollection]:
    before = gc.get_threshold()
    made = GarbageCollection(clock)
    made.start()
    yield made
    gc.set_threshold(*before)
    gc.unfreeze()


def dead() -> weakref.ref[Cycle]:
    """A cycle that nothing holds any more."""
    return weakref.ref(Cycle())


def kept_for_a_step(garbage: GarbageCollection) -> weakref.ref[Cycle]:
    """Likewise, but it was held during a step."""
    one = Cycle()
    garbage.rest(32)
    return weakref.ref(one)


def test_what_came_since_the_last_step_is_freed_by_the_next(garbage: GarbageCollection) -> None:
    found = dead()
    assert found() is not None
    garbage.rest(32)
    assert found() is None


def test_what_stays_is_looked_at_once(garbage: GarbageCollection) -> None:
    gone = kept_for_a_step(garbage)
    garbage.rest(32)
    assert gone() is not None


@pytest.mark.parametrize(
    ("answers", "after_s", "freed"),
    [
        (0, QUIET_AFTER_S, True),
        (0, QUIET_AFTER_S - 1, False),
        (5, QUIET_AFTER_S, False),
        (5, BUSY_AFTER_S, True),
    ],
)
def test_the_rest_is_freed_in_a_quiet_moment_or_after_hours(
    garbage: GarbageCollection, clock: Clock, answers: int, after_s: float, *, freed: bool
) -> None:
    gone = kept_for_a_step(garbage)
    clock.now_s += after_s
    garbage.rest(answers)
    assert (gone() is None) is freed


def test_the_next_whole_look_is_as_far_away_again(garbage: GarbageCollection, clock: Clock) -> None:
    clock.now_s += QUIET_AFTER_S
    garbage.rest(0)
    gone = kept_for_a_step(garbage)
    clock.now_s += QUIET_AFTER_S - 1
    garbage.rest(0)
    assert gone() is not None
