"""Helpers for several ``berth pilot`` commands: where a result is written, and progress."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from berth.pilot.documents import Document, to_json, write_json
from berth.pilot.errors import BerthError, UsageError
from berth.pilot.progress import Say
from berth.pilot.suite_build import cache_folder
from berth.plugin.report.progress_bars import saying

if TYPE_CHECKING:
    from berth.plugin.site.site import Site


def check_output(output: Path | None) -> None:
    """Raise UsageError before a pilot run if its result cannot be written to ``output``."""
    if output is None:
        return
    folder = output.resolve().parent
    if output.is_dir():
        raise UsageError(f"--output: {output} is a folder")
    if not folder.is_dir():
        raise UsageError(f"--output: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--output: no right to write in {folder}")


def keep(output: Path, measured: Document) -> None:
    """Write what was measured to ``output``; where that fails, into another folder.

    That is the working folder, the cache or the folder for temporary files, the first that takes
    it. Where none does, the document is printed. Raises BerthError that says where it is.
    """
    try:
        write_json(output, measured)
    except OSError as error:
        problem = f"{output} cannot be written: {error.strerror}"
    else:
        return
    for folder in (Path.cwd(), cache_folder(), Path(tempfile.gettempdir())):
        other = folder / output.name
        with contextlib.suppress(OSError):
            if not other.exists():
                write_json(other, measured)
                raise BerthError(problem, hint=f"what was measured is kept in {other}")
    print(to_json(measured), end="")
    raise BerthError(problem, hint="what was measured is on standard output")


def must_count(site: Site) -> bool:
    """Return whether a bundle of the site predicts from counters, so that time and memory do not
    do; then say so."""
    from berth.plugin.forecasting import counted_bundle  # noqa: PLC0415 - slow, only with a site

    bundle = counted_bundle(site) if site.bundles else None
    if bundle is not None:
        click.echo(f"--count: the site's bundle {bundle.name} predicts from counters", err=True)
    return bundle is not None


@contextlib.contextmanager
def progress() -> Iterator[Say]:
    """Show a pilot's progress on standard error, if that is a terminal, while the block runs.

    In the block, SIGTERM and SIGHUP (a scheduler's time limit, a closed terminal) act like Ctrl-C:
    the measured program is ended, and the measurements so far are kept.
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
