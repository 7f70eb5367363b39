"""Workers that run a tune's trials: processes of this machine, or jobs of the site's scheduler.

A worker's name lets other processes check that the worker still runs: the name is its job id, or
its process id and host.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from berth.pilot.errors import BerthError, SchedulerError, UsageError
from berth.pilot.run import ENDED
from berth.plugin.scheduler import Scheduler, WorkersJob, scheduler_named
from berth.policies.tuning.storage import Patience, Progress, StorageAway, storage_answers

NAME = "BERTH_TUNE_WORKER"
"""Environment variable with the name of a submitted worker."""
_PROCESS = "process"
LOG = "worker-{}.log"
POLL_S = 1.0
_LAST_WORDS = 200


def own_name() -> str:
    """Return the worker name of this process, or of the job as which it was submitted."""
    return os.environ.get(NAME) or process_name(os.getpid())


def naming(scheduler: Scheduler) -> str:
    """Return the line of a job script that sets the worker's name.

    Empty: the scheduler does not give jobs their id.
    """
    if scheduler.job_variable is None:
        return ""
    return f'export {NAME}="{scheduler.name}:${scheduler.job_variable}"\n'


def process_name(pid: int) -> str:
    """Return the worker name of a process on this machine."""
    return f"{_PROCESS}:{pid}@{socket.gethostname()}"


def is_gone(name: str) -> bool:
    """Return whether a worker is known to have ended; False where this cannot be determined."""
    kind, _, rest = name.partition(":")
    if kind == _PROCESS:
        pid, _, host = rest.partition("@")
        return host == socket.gethostname() and not _runs(int(pid))
    try:
        now = scheduler_named(kind).job_now(rest)
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


def command_of(folder: Path) -> tuple[str, ...]:
    """Return the command that runs a worker on any machine with the folder and this
    installation."""
    code = "from berth.plugin.cli import main; main()"
    return (sys.executable, "-c", code, "replay", "tune", f"--join={folder.absolute()}")


class LocalWorkers:
    """Worker processes of this machine; leaving the ``with`` block ends them."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self._count = folder, count
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> LocalWorkers:
        for index in range(1, self._count + 1):
            with (self._folder / LOG.format(index)).open("wb") as log:
                self._running.append(
                    subprocess.Popen(
                        command_of(self._folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
                )
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._running:
            worker.terminate()
        for worker in self._running:
            worker.wait()

    def alive(self) -> bool:
        """Return whether any worker still runs."""
        return bool(self.names())

    def names(self) -> tuple[str, ...]:
        """Return the names of the running workers, as trials record them."""
        return tuple(process_name(worker.pid) for worker in self._running if worker.poll() is None)


class SubmittedWorkers:
    """Worker jobs of a scheduler; jobs that are left at the end continue until they end by
    themselves."""

    def __init__(self, scheduler: Scheduler, job_ids: Sequence[str]) -> None:
        self._scheduler = scheduler
        self.job_ids = tuple(job_ids)

    def alive(self) -> bool:
        """Return whether any worker job is pending or running."""
        return self._scheduler.any_left(self.job_ids)


def submit(
    folder: Path,
    scheduler: Scheduler,
    queue: str,
    count: int,
    *,
    time_limit_s: float,
    account: str | None = None,
    qos: str | None = None,
) -> SubmittedWorkers:
    """Submit ``count`` worker jobs. Raises UsageError and SchedulerError."""
    script = folder / "worker.sh"
    try:
        script.write_text(f"#!/bin/sh\n{naming(scheduler)}exec {shlex.join(command_of(folder))}\n")
        script.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{script} cannot be written: {error.strerror}") from None
    job = WorkersJob(
        "berth-tune", script.absolute(), folder.absolute(), queue, count, time_limit_s,
        account=account, qos=qos,
    )  # fmt: skip
    commands = scheduler.workers_commands(job)
    return SubmittedWorkers(scheduler, [scheduler.submit(command) for command in commands])


def follow(
    workers: LocalWorkers | SubmittedWorkers,
    progress: Callable[[], Progress],
    trials: int,
    *,
    folder: Path,
    show: Callable[[Progress], None],
    pause_s: float = POLL_S,
) -> None:
    """Wait until the study has ``trials`` finished trials.

    If the scheduler or the storage does not answer, this waits for it; workers continue without the
    scheduler and wait for the storage. Raises BerthError where either stays unavailable, or all
    workers end too early.
    """
    waiting = Patience(pause_s=pause_s)
    while True:
        try:
            alive = workers.alive()
            now = storage_answers(progress)
        except (SchedulerError, StorageAway) as error:
            waiting.wait(error)
            continue
        waiting.over()
        show(now)
        if now.finished >= trials:
            return
        if not alive:
            raise BerthError(
                f"no worker is left, with {now.finished} of {trials} trials done{_said(folder)}",
                hint="the same command goes on with what is done",
            )
        time.sleep(pause_s)


def _said(folder: Path) -> str:
    """Return the last line of the newest non-empty worker log, for an error message."""
    logs = sorted(folder.glob(LOG.format("*")), key=lambda path: -path.stat().st_mtime)
    for path in logs:
        lines = [x for x in path.read_text(errors="replace").splitlines() if x.strip()]
        if lines:
            return f"; {path.name}: {lines[-1][:_LAST_WORDS]}"
    return ""
