"""A progress bar on standard error for training and evaluation; off where that is no terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import Progress


class Advance(Protocol):
    """Called at each step done; its arguments do not matter."""

    def __call__(self, *ignored: object) -> None: ...


@contextlib.contextmanager
def step_bar(what: str, total: int) -> Iterator[Advance]:
    """Shows ``what`` and how many of ``total`` steps are done, until the block ends."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)

        def advance(*_: object) -> None:
            progress.advance(task)

        yield advance
