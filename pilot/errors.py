"""The errors that Berth raises on purpose.

Each message says what is wrong and where; ``hint`` says what to do. The command line prints
both in one or two lines and exits with ``exit_status``: a user never sees a traceback for
bad input or a missing tool.
"""

from __future__ import annotations

from pathlib import Path


class BerthError(Exception):
    """Something Berth could not do, with a sentence for the user."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(BerthError):
    """The caller asked for something that makes no sense as asked."""

    exit_status = 2


class DocumentError(UsageError):
    """A file (profile, site file, platform, bundle manifest) that cannot be accepted.

    ``source`` is the file or a name for it, ``key`` the dotted path of the offending key.
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
    """Return a file's words as part of a sentence: one line of at most so many characters."""
    short = text if len(text) <= most else text[: most - 3] + "..."
    return short if short.isprintable() else "".join(c if c.isprintable() else " " for c in short)


class ToolMissing(BerthError):
    """An external program or library that this step needs is not there."""

    def __init__(self, tool: str, *, needed_for: str, hint: str | None = None) -> None:
        super().__init__(f"{tool} is not available; it is needed for {needed_for}", hint=hint)
        self.tool = tool


class PilotError(BerthError):
    """A pilot run that could not measure anything."""


class StoreError(BerthError):
    """The store cannot be read or written."""


class SchedulerError(BerthError):
    """The scheduler's commands failed or answered something unreadable."""
