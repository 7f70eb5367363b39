"""``berth`` without its start: each call is forked from a process that has imported it once.

A fresh ``berth`` spends 0.4 to 1 s of processor time on imports, and hundreds of tests start one.
Everything else is real: a process of its own with its arguments, environment, streams, signals.
Tests of the start itself (what is imported, how fast, how large it stays) use a fresh process, and
so does all that is no test: benchmarks measure what a user has.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

IMPORTED = (
    "alembic.command",
    "berth.plugin.cli.jobs.decisions",
    "berth.plugin.cli.site.doctor",
    "berth.plugin.cli.jobs.history",
    "berth.plugin.cli.pilot.run",
    "berth.plugin.cli.place.command",
    "berth.plugin.cli.predict.command",
    "berth.plugin.cli.serve",
    "berth.plugin.cli.why",
    "berth.plugin.cli.workload.command",
    "berth.plugin.daemon.app",
    "berth.plugin.users.service",
    "sqlalchemy.dialects.sqlite",
)
"""What most commands need; the others are imported by the forked process itself."""

FRESH = (sys.executable, "-c", "from berth.plugin.cli import main; main()")
"""``berth`` started as a user starts it."""
_AT_START_ONLY = ("LD_", "MALLOC_", "PYTHON")
"""Variables that count only when an interpreter starts."""

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(list(IMPORTED))


class Forked:
    """A running ``berth``, with what tests use of ``subprocess.Popen``."""

    def __init__(
        self,
        words: tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        stdin: Path | str = os.devnull,
        stdout: Path | str = os.devnull,
        stderr: Path | str = os.devnull,
        uid: int | None = None,
    ) -> None:
        settings = dict(os.environ if env is None else env)
        self.args = ("berth", *words)
        for path in (stdout, stderr):
            Path(path).touch()
        self._process = _SERVER.Process(
            target=_become,
            args=(
                words, settings, str(cwd or Path.cwd()), (str(stdin), str(stdout), str(stderr)), uid
            ),
            daemon=True,
        )  # fmt: skip
        with _no_main():
            self._process.start()
        pid = self._process.pid
        assert pid is not None
        self.pid = pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, the negative number of the signal that ended it, or None."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        found = self._process.exitcode
        if found is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return found

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


_STARTING = threading.Lock()


@contextmanager
def _no_main() -> Iterator[None]:
    """The forked process is not to import what was started here: pytest, say."""
    with _STARTING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def can_fork(env: Mapping[str, str] | None = None) -> bool:
    """Whether this is a test, and a forked process as a fresh one of this environment would be."""
    return "_pytest.config" in sys.modules and all(
        os.environ.get(name) == value
        for name, value in (env or {}).items()
        if name.startswith(_AT_START_ONLY)
    )


def run_berth(
    *words: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    given: str = "",
    timeout_s: float | None = None,
    uid: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """``berth`` with these words, ``given`` on its standard input; never raises by its status.

    ``uid``: run by root as this user, who need not be able to read this environment's files.
    """
    with tempfile.TemporaryDirectory(prefix="berth-run-") as folder:
        stdin, stdout, stderr = (Path(folder) / name for name in ("in", "out", "err"))
        stdin.write_text(given)
        running = Forked(
            tuple(map(str, words)), env=env, cwd=cwd,
            stdin=stdin, stdout=stdout, stderr=stderr, uid=uid,
        )  # fmt: skip
        try:
            status = running.wait(timeout_s)
        finally:
            running.kill()
        texts = (path.read_text(errors="surrogateescape") for path in (stdout, stderr))
        return subprocess.CompletedProcess(running.args, status, *texts)


def _become(
    words: tuple[str, ...],
    env: dict[str, str],
    cwd: str,
    streams: tuple[str, str, str],
    uid: int | None,
) -> None:
    flags = (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT | os.O_APPEND] * 2)
    for number, (path, how) in enumerate(zip(streams, flags, strict=True)):
        opened = os.open(path, how, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["berth", *words]
    from berth.plugin.cli import main

    if uid is not None:
        from berth.plugin.scheduler import SCHEDULERS
        from berth.predictor.core.workload import KINDS

        KINDS.load_all()
        SCHEDULERS.load_all()
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    atexit._clear()  # what this process was forked from ends by itself
    try:
        main(words)
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends without them
