"""Runs a scheduler's own command with a time limit; failures to run it are one sentence."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.pilot.errors import SchedulerError, ToolMissing


class Hints(NamedTuple):
    """The advice that an error gives where a scheduler's command cannot be run."""

    needed_for: str
    """Purpose that the error names, such as ``talking to Slurm``."""
    absent: str
    """Advice where the command is not installed."""
    silent: str
    """Advice where the command does not end in time."""


def run_command(
    command: Sequence[str],
    name: str,
    hints: Hints,
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command, whatever its exit status is.

    ``name``: the command in messages; ``environment`` None: this process's own. Raises ToolMissing
    where the command is not installed, SchedulerError where it cannot be started or does not end
    within ``timeout_s``.
    """
    try:
        return subprocess.run(
            command,
            input=None if stdin is None else stdin.encode(),
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise ToolMissing(command[0], needed_for=hints.needed_for, hint=hints.absent) from None
    except subprocess.TimeoutExpired:
        raise SchedulerError(
            f"{name} did not answer within {timeout_s:g} s", hint=hints.silent
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SchedulerError(f"{name} could not be started: {reason}") from None
