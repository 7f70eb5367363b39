"""The errors that Berth raises on purpose.

Each message says what is wrong and where; ``hint`` says what to do. The command line prints
both in one or two lines and exits with ``exit_status``: a user never sees a traceback for
bad input or a missing tool.
"""

from __future__ import annotations

from pathlib import Path


class BerthError(Exception):
    """Base class of Berth's errors: a message for the user, and a hint what to do."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(BerthError):
    """The request of the caller is invalid: a wrong argument, name or combination."""

    exit_status = 2


class DocumentError(UsageError):
    """A file is invalid: a profile, site file, platform, bundle manifest or other document.

    ``source``: path or name of the file. ``key``: dotted path of the invalid key, or None.
    """

    def __init__(
        self, source: str | Path, problem: str, *, key: str | None = None, hint: str | None = None
    ) -> None:
        where = f"{source}: {_shown(key, 200)}" if key else str(source)
        super().__init__(f"{where}: {_shown(problem, 800)}", hint=hint)
        self.source = str(source)
        self.problem = problem
        self.key = key


def _shown(text: str, most: int) -> str:
    """Return text of a file for an error message: one printable line of at most ``most`` chars."""
    short = text if len(text) <= most else text[: most - 3] + "..."
    return short if short.isprintable() else "".join(c if c.isprintable() else " " for c in short)


class ToolMissing(BerthError):
    """A program or library that Berth needs for a step is not installed."""

    def __init__(self, tool: str, *, needed_for: str, hint: str | None = None) -> None:
        super().__init__(f"{tool} is not available; it is needed for {needed_for}", hint=hint)
        self.tool = tool


class PilotError(BerthError):
    """A pilot run failed without any measurement."""


class StoreError(BerthError):
    """The store cannot be read or written."""


class SchedulerError(BerthError):
    """A command of the scheduler failed, or its output could not be parsed."""
