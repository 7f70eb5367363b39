"""Starts the helper for each connection to a Unix socket, as systemd does with ``Accept=yes``."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from berth.pilot.errors import BerthError

OTHER_USER = "games"
"""A user of every Debian without rights."""


class HelperServer:
    """The socket, and the helpers that were started for it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], config: Path) -> None:
        self.path = folder / "mig.sock"
        self.helpers: list[subprocess.Popen[bytes]] = []
        self._environment = {**os.environ, **environment}
        self._config = config
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self.path.chmod(0o666)
        self._listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.helpers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "berth.plugin.mig.helper", "--config", self._config],
                        stdin=connection,
                        stdout=connection,
                        stderr=subprocess.DEVNULL,
                        env=self._environment,
                    )
                )

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for helper in self.helpers:
            helper.kill()
            helper.wait()


def unprivileged() -> str:
    """The user as whom callers run: somebody else where we are root, else ourselves."""
    return OTHER_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


@contextlib.contextmanager
def serving(folder: Path, environment: Mapping[str, str], config: Path) -> Iterator[HelperServer]:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    server = HelperServer(folder, environment, config)
    try:
        yield server
    finally:
        server.close()


def as_unprivileged(work: Callable[[], str]) -> str:
    """What ``work`` returns in a child process of another user; the error's text where it fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                user = pwd.getpwnam(OTHER_USER)
                os.setgroups([])
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            try:
                said = work()
            except BerthError as error:
                said = f"{type(error).__name__}: {error.message}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said
