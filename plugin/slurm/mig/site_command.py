"""Runs a command of the site's own settings: no shell, a bare environment, a time limit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from berth.pilot.errors import BerthError

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended, with the last line that it wrote to its standard error ("": none)."""

    status: int
    last_line: str


def run_site_command(command: Sequence[str], *, timeout_s: float, sent: bytes = b"") -> Ended:
    """Run it, with ``sent`` on its standard input. Raises BerthError where it does not end."""
    try:
        done = subprocess.run(
            command,
            input=sent,
            capture_output=True,
            env=ENVIRONMENT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BerthError(f"{command[0]} did not end within {timeout_s:.0f} s") from None
    except OSError as error:
        raise BerthError(f"{command[0]} could not be started: {error.strerror}") from None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return Ended(done.returncode, lines[-1] if lines else "")
