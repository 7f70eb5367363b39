"""Progress bars with the time left, on standard error; off where standard error is no terminal.

All bars of a command share one display: two displays would overwrite each other.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from berth.pilot.progress import Say, say_nothing, showing

SHOWN_AFTER_S = 1.0
"""Work that takes less than this time (s) shows no bar."""


class Advance(Protocol):
    """A function that is called once for each finished step; it ignores its arguments."""

    def __call__(self, *ignored: object) -> None: ...


@contextlib.contextmanager
def step_bar(what: str, total: int) -> Iterator[Advance]:
    """Show a progress bar titled ``what`` over ``total`` steps while the block runs; call the
    yielded function after each step."""
    with saying(what) as say:
        done = 0

        def advance(*_: object) -> None:
            nonlocal done
            done += 1
            say("", done, total)

        say("", 0, total)
        yield advance


@contextlib.contextmanager
def saying(title: str) -> Iterator[Say]:
    """Show a progress line titled ``title`` while the block runs; call the yielded function with
    the current activity and, where known, steps done and total."""
    with _display() as bars:
        if bars is None:
            yield say_nothing
            return
        bars.begin(title)

        def say(what: str, done: int = 0, of: int = 0) -> None:
            bars.say(title, f"{title}: {what}" if what else title, done, of)

        try:
            yield say
        finally:
            bars.end(title)


@contextlib.contextmanager
def shown_reports() -> Iterator[None]:
    """Show progress bars for the work in the block that reports its progress
    (``berth.pilot.progress``) and takes longer than ``SHOWN_AFTER_S``.

    Each bar is removed when its work is done, so that none is on the screen when a result is
    printed.
    """
    with _display() as bars:
        if bars is None:
            yield
            return
        with showing(bars.show):
            yield


class _Bars:
    """The progress bars of one command."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_s: dict[str, float] = {}
        self._tasks: dict[str, TaskID] = {}
        self._progress = _bar()

    def show(self, what: str, done: int, of: int) -> None:
        """Update, begin or end the bar of one progress report; the bar begins after
        ``SHOWN_AFTER_S``."""
        begun_s = self._begun_s.setdefault(what, time.monotonic())
        if done >= of:
            self.end(what)
        elif what in self._tasks:
            self.say(what, what, done, of)
        elif time.monotonic() - begun_s >= SHOWN_AFTER_S:
            self.begin(what, done, of)

    def begin(self, key: str, done: int = 0, of: int = 0) -> None:
        """Add a bar under ``key``; ``of`` 0: the number of steps is unknown."""
        with self._lock:
            self._progress.start()
            self._tasks[key] = self._progress.add_task(key, completed=done, total=of or None)

    def say(self, key: str, text: str, done: int, of: int) -> None:
        """Set the text and the progress of the bar ``key``."""
        with self._lock:
            task = self._tasks.get(key)
            if task is not None:
                self._progress.update(
                    task, description=text, completed=done, total=of or None, refresh=True
                )

    def end(self, key: str) -> None:
        """Remove the bar ``key``; with the last bar the display stops."""
        with self._lock:
            self._begun_s.pop(key, None)
            task = self._tasks.pop(key, None)
            if task is None:
                return
            self._progress.remove_task(task)
            if not self._tasks:
                self._progress.stop()

    def close(self) -> None:
        """Stop the display and remove all bars."""
        with self._lock:
            if self._tasks:
                self._progress.stop()


_bars: ContextVar[_Bars | None] = ContextVar("bars", default=None)


@contextlib.contextmanager
def _display() -> Iterator[_Bars | None]:
    """Yield the bars of the running command, created if there are none; None: standard error is
    no terminal."""
    there = _bars.get()
    if there is not None or not sys.stderr.isatty():
        yield there
        return
    made = _Bars()
    token = _bars.set(made)
    try:
        yield made
    finally:
        _bars.reset(token)
        made.close()


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    )
