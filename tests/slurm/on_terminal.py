"""Runs a shell line on a terminal of its own, as a person at a login node would."""

from __future__ import annotations

import os
import pty
import re
import subprocess

from slurm_cluster import USER, Cluster, as_user


def on_terminal(slurm: Cluster, line: str, environment: dict[str, str]) -> str:
    """What the terminal shows of ``sh -c line``."""
    controller, terminal = pty.openpty()
    shell = subprocess.Popen(
        [*as_user(USER), "setsid", "--ctty", "sh", "-c", line],
        env={**slurm.environment, **environment},
        cwd=slurm.work,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # how a terminal says that nobody has it open any more
            break
        if not part:
            break
        shown += part
    os.close(controller)
    shell.wait()
    return re.sub(r"\r+\n", "\n", shown.decode(errors="replace"))
