"""What the long pilot commands share: progress on standard error, and being told to stop."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from berth.pilot.progress import Say
from berth.plugin.cli.output.step_bar import saying


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Says on standard error what is going on, where that is a terminal.

    Within it, SIGTERM and SIGHUP (a scheduler's time limit, a closed terminal) are as Ctrl-C:
    the measured program is ended and what was measured is kept.
    """
    with _stoppable(), saying("pilot") as say:
        yield say


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    kept = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before = signal.getsignal(number)
        if before is signal.SIG_DFL:
            kept[number] = before
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
