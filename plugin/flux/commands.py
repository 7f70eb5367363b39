"""Runs the ``flux`` command with a time limit, in the C locale; failures become one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berth.pilot.errors import SchedulerError
from berth.plugin.scheduler.running import Hints, run_command

DEFAULT_TIMEOUT_S = 20.0
_SERVICES = Path(__file__).with_name("services.py")
_HINTS = Hints(
    "talking to Flux", "run this where the `flux` command is on PATH",
    "is the broker up? `flux uptime` tells",
)  # fmt: skip
_UNREACHED = ("flux_open", "Unable to connect to Flux", "Unable to connect to broker")
_MOST_SAID = 300
UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Errors that reading an answer of Flux raises if it has another form than expected."""


def run(
    *words: str,
    stdin: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    expected: Sequence[int] = (0,),
    submits: bool = False,
) -> str:
    """Run ``flux WORDS`` and return its standard output.

    ``expected``: exit statuses that are no failure; ``submits``: the command runs in the caller's
    own environment, because the job inherits it. Raises ToolMissing where Flux is not installed,
    SchedulerError where the command fails, exceeds ``timeout_s`` or writes something that is not
    text.
    """
    name = f"flux {words[0]}"
    done = run_command(
        ("flux", *words), name, _HINTS,
        timeout_s=timeout_s, environment=None if submits else _environment(), stdin=stdin,
    )  # fmt: skip
    if done.returncode not in expected:
        raise _failed(name, done.returncode, done.stderr.decode("utf-8", "replace"))
    try:
        return done.stdout.decode("utf-8")
    except UnicodeDecodeError:
        raise SchedulerError(f"{name} wrote something that is not text") from None


def listed_jobs(text: str) -> list[Any]:
    """Return the job objects in the output of ``flux jobs --json``. Raises SchedulerError where the
    text is no list of jobs.
    """
    try:
        answer = json.loads(text)
        # Flux writes a single job as an object without the list "jobs".
        jobs = answer["jobs"] if "jobs" in answer else [answer] * bool(answer)
    except (ValueError, TypeError, RecursionError):
        jobs = None
    if not isinstance(jobs, list) or not isinstance(answer, dict):
        raise SchedulerError(f"flux jobs answered something unreadable: {text[:80]!r}")
    return jobs


def ask(question: str, *words: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
    """Return the JSON object that ``services.py`` prints. Raises SchedulerError or ToolMissing."""
    text = run("python", str(_SERVICES), question, *words, timeout_s=timeout_s)
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise SchedulerError(f"Flux's services answered something unreadable: {text[:80]!r}")
    return answer


def ask_lines(
    question: str, *words: str, stdin: str, timeout_s: float = DEFAULT_TIMEOUT_S
) -> list[str]:
    """Return the lines that ``services.py`` prints, each a JSON text. Raises SchedulerError or
    ToolMissing.
    """
    return run(
        "python", str(_SERVICES), question, *words, stdin=stdin, timeout_s=timeout_s
    ).splitlines()


def _environment() -> dict[str, str]:
    """Return the environment without variables for Berth's Python, since ``flux python`` is another
    Python.
    """
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {**{k: v for k, v in os.environ.items() if k not in ours}, "LC_ALL": "C"}


def _failed(name: str, status: int, stderr: str) -> SchedulerError:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    reason = lines[-1] if lines else "no message"
    if any(mark in stderr for mark in _UNREACHED):
        return SchedulerError(
            f"{name} found no Flux instance to speak to",
            hint="is the broker up? inside of an instance, or with FLUX_URI, this works",
        )
    return SchedulerError(f"{name} failed with status {status}: {reason[:_MOST_SAID]}")
