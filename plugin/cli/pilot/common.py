"""What several ``berth pilot`` commands share: lists as options, where a result goes, progress."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from berth.pilot.errors import UsageError
from berth.pilot.progress import Say
from berth.plugin.report.progress_bars import saying


def parse_words(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (value or "").split(",") if word.strip())


def parse_numbers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in parse_words(context, parameter, value))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers like 100,200") from None


def parse_counts(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, ...]:
    numbers = parse_numbers(context, parameter, value)
    if any(number < 1 or number != int(number) for number in numbers):
        raise click.BadParameter(f"{value!r} is not a list of whole numbers like 1,2,4")
    return tuple(int(number) for number in numbers)


def check_output(output: Path | None) -> None:
    """Find out before the pilot, not after it, that its result has nowhere to go."""
    if output is None:
        return
    folder = output.resolve().parent
    if output.is_dir():
        raise UsageError(f"--output: {output} is a folder")
    if not folder.is_dir():
        raise UsageError(f"--output: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output: no right to write in {folder}")


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Show progress on standard error where that is a terminal.

    Within it, SIGTERM and SIGHUP (a scheduler's time limit, a closed terminal) are as Ctrl-C:
    the measured program is ended and what was measured is kept.
    """
    with _stoppable(), saying("pilot") as say:
        yield say


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    handlers = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        before = signal.getsignal(number)
        if before is signal.SIG_DFL:
            handlers[number] = before
            signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
