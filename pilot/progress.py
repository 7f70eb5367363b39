"""Progress reports of long work, for a front end that shows them.

Library code calls ``report``, ``steps`` or ``lasting``, as it would write a log line. A front end
that shows progress wraps the call in ``with showing(function)``; without it, reports do nothing.
Pilots instead get a ``Say`` function as an argument.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")
Show = Callable[[str, int, int], None]
"""A function (activity, completed steps, total steps) that shows progress."""
REPORTS = 200
"""Approximate number of reports of ``steps``."""
TICK_S = 0.5
"""Seconds between reports of work that is reported by the clock."""
_MILLI = 1_000
_show: ContextVar[Show | None] = ContextVar("show", default=None)


class Say(Protocol):
    """Function that shows the activity of a pilot; ``of`` 0: the number of steps is unknown."""

    def __call__(self, activity: str, /, done: int = 0, of: int = 0) -> None: ...


def say_nothing(activity: str, done: int = 0, of: int = 0) -> None:
    """Show nothing: the ``Say`` of pilots without a front end."""


@contextmanager
def showing(show: Show) -> Iterator[None]:
    """Pass the progress reports of the ``with`` block to ``show``."""
    before = _show.set(show)
    try:
        yield
    finally:
        _show.reset(before)


def is_shown() -> bool:
    """Return whether a front end shows progress reports."""
    return _show.get() is not None


def report(activity: str, done: int, of: int) -> None:
    """Report that ``done`` of ``of`` steps of the activity are completed."""
    show = _show.get()
    if show is not None:
        show(activity, done, of)


def steps(activity: str, items: Sequence[T]) -> Iterator[T]:
    """Yield the items and report progress, about ``REPORTS`` times in all."""
    every = max(1, len(items) // REPORTS)
    try:
        for done, item in enumerate(items):
            if done % every == 0:
                report(activity, done, len(items))
            yield item
    finally:  # also if the caller stops before the last item
        report(activity, len(items), len(items))


def lasting(activity: str, seconds: float) -> AbstractContextManager[None]:
    """Report the elapsed milliseconds of the ``with`` block, for work without countable steps.

    ``seconds``: expected duration, shown as the total.
    """
    show = _show.get()
    return nullcontext() if show is None else clocked(show, activity, seconds)


@contextmanager
def clocked(
    show: Show, activity: str, seconds: float, at_most_s: float | None = None
) -> Iterator[None]:
    """Report the elapsed time of the ``with`` block to ``show``, as ``lasting`` does.

    ``at_most_s``: time limit, shown as the total once the work takes longer than ``seconds``.
    Nothing is done if ``show`` is ``say_nothing``.
    """
    if show is say_nothing:
        yield
        return
    over, begun_s = threading.Event(), time.monotonic()

    def tick() -> None:
        done_s = time.monotonic() - begun_s
        of_s = seconds if done_s < seconds or at_most_s is None else at_most_s
        of = max(1, int(of_s * _MILLI))
        show(activity, min(int(done_s * _MILLI), of - 1), of)

    def watch() -> None:
        while not over.wait(TICK_S):
            tick()

    tick()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        show(activity, 1, 1)
