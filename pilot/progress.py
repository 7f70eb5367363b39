"""How far long work is, for a front end that shows it: where none does, nothing happens.

Work deep inside reports by ``report``, ``steps`` or ``lasting``, as it would write a log line; a
front end puts ``showing`` around it. Pilots, which also say what they do now, are given a ``Say``.
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
"""Takes what is being done, how many steps of it are done, and of how many."""
REPORTS = 200
"""So often long work says how far it is."""
TICK_S = 0.5
"""Work that nobody counts is looked at so often."""
_MILLI = 1_000
_show: ContextVar[Show | None] = ContextVar("show", default=None)


class Say(Protocol):
    """Says what a pilot does now; ``of`` 0: nobody knows how many steps there are."""

    def __call__(self, activity: str, /, done: int = 0, of: int = 0) -> None: ...


def say_nothing(activity: str, done: int = 0, of: int = 0) -> None:
    """Say nothing: for pilots that nobody watches."""


@contextmanager
def showing(show: Show) -> Iterator[None]:
    """Let reports within it go to ``show``."""
    before = _show.set(show)
    try:
        yield
    finally:
        _show.reset(before)


def is_shown() -> bool:
    """Return whether a report would be seen."""
    return _show.get() is not None


def report(activity: str, done: int, of: int) -> None:
    """Report that ``done`` of ``of`` steps are done."""
    show = _show.get()
    if show is not None:
        show(activity, done, of)


def steps(activity: str, items: Sequence[T]) -> Iterator[T]:
    """Yield the items, and report now and then how many were handed out."""
    every = max(1, len(items) // REPORTS)
    try:
        for done, item in enumerate(items):
            if done % every == 0:
                report(activity, done, len(items))
            yield item
    finally:  # also where whoever takes them has had enough
        report(activity, len(items), len(items))


def lasting(
    activity: str, seconds: float, at_most_s: float | None = None
) -> AbstractContextManager[None]:
    """Report by the clock, in milliseconds, on work within it of which only its time is known.

    ``seconds`` is expected; ``at_most_s`` what bounds it, once it takes longer than expected.
    """
    show = _show.get()
    return nullcontext() if show is None else clocked(show, activity, seconds, at_most_s)


@contextmanager
def clocked(
    show: Show, activity: str, seconds: float, at_most_s: float | None = None
) -> Iterator[None]:
    """Report to ``show`` as ``lasting`` does; nothing happens where ``show`` says nothing."""
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
