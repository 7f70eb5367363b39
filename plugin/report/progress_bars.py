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
from typing import TYPE_CHECKING, Protocol

from berth.pilot.progress import Say, say_nothing, showing

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
    with _display() as progress:
        if progress is None:
            yield say_nothing
            return
        task = _begin(progress, title)

        def say(what: str, done: int = 0, of: int = 0) -> None:
            text = f"{title}: {what}" if what else title
            progress.update(task, description=text, completed=done, total=of or None, refresh=True)

        try:
            yield say
        finally:
            _end(progress, task)


@contextlib.contextmanager
def shown_reports() -> Iterator[None]:
    """Show progress bars for the work in the block that reports its progress
    (``berth.pilot.progress``) and takes longer than ``SHOWN_AFTER_S``.

    Each bar is removed when its work is done, so that none is on the screen when a result is
    printed.
    """
    with _display() as progress:
        if progress is None:
            yield
            return
        lock, begun_s = threading.Lock(), dict[str, float]()
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, of: int) -> None:
            now_s = time.monotonic()
            with lock:
                since_s = now_s - begun_s.setdefault(what, now_s)
                if done >= of:
                    del begun_s[what]
                    if what in tasks:
                        _end(progress, tasks.pop(what))
                elif what in tasks:
                    progress.update(tasks[what], completed=done, total=of, refresh=True)
                elif since_s >= SHOWN_AFTER_S:
                    tasks[what] = _begin(progress, what, done, of)

        with showing(show):
            yield


def _begin(progress: Progress, title: str, done: int = 0, of: int = 0) -> TaskID:
    """Add a bar to the display; ``of`` 0: the number of steps is unknown."""
    progress.start()
    return progress.add_task(title, completed=done, total=of or None)


def _end(progress: Progress, task: TaskID) -> None:
    """Remove a bar; with the last one the display stops."""
    progress.remove_task(task)
    if not progress.tasks:
        progress.stop()


_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def _display() -> Iterator[Progress | None]:
    """Yield the display of the running command, made if there is none; None: standard error is no
    terminal."""
    there = _progress.get()
    if there is not None or not sys.stderr.isatty():
        yield there
        return
    progress = _bar()
    token = _progress.set(progress)
    try:
        yield progress
    finally:
        _progress.reset(token)
        progress.stop()


def _bar() -> Progress:
    from rich import progress as rich_progress  # noqa: PLC0415 - 40 ms, only for terminals
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("left:"),
        rich_progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    )
