"""Workers by names that others can ask after: a job of a scheduler, or a process of a machine."""

from __future__ import annotations

import os
import socket

from berth.pilot.errors import BerthError
from berth.plugin.scheduler import ENDED, SCHEDULERS, Scheduler

NAME = "BERTH_TUNE_WORKER"
"""Variable of the environment in which a submitted worker finds its name."""
_PROCESS = "process"


def own_name() -> str:
    """Of this process, or of the job that it was submitted as."""
    return os.environ.get(NAME) or process_name(os.getpid())


def naming(scheduler: Scheduler) -> str:
    """A line of a shell script that gives a submitted worker its name; empty: its jobs do not know
    what they are called."""
    if scheduler.job_variable is None:
        return ""
    return f'export {NAME}="{scheduler.name}:${scheduler.job_variable}"\n'


def process_name(pid: int) -> str:
    """Of a process of this machine."""
    return f"{_PROCESS}:{pid}@{socket.gethostname()}"


def is_gone(name: str) -> bool:
    """Whether a worker is known to have ended; of what cannot be asked it is not known."""
    kind, _, rest = name.partition(":")
    if kind == _PROCESS:
        pid, _, host = rest.partition("@")
        return host == socket.gethostname() and not _runs(int(pid))
    try:
        now = SCHEDULERS.load(kind)().job_now(rest)
    except BerthError:
        return False
    return now is None or now.state in ENDED


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
