"""A store on each database: SQLite in a folder, PostgreSQL on a private server.

The PostgreSQL server is this machine's own (``/usr/lib/postgresql/*/bin`` or PATH), started on a
Unix socket only, as an unprivileged user where we are root, and stopped with the session.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNPRIVILEGED = ("postgres", "nobody")


class NoPostgresql(Exception):
    """There is no server to start here, and why."""


def server_programs() -> Path:
    """The folder with ``initdb`` and ``postgres``. Raises NoPostgresql."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is None:
        raise NoPostgresql("no PostgreSQL server is installed (Debian: apt install postgresql)")
    return Path(on_path).parent


class Postgresql:
    """A private server in a folder of its own. Raises NoPostgresql."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._programs = server_programs()
        self._user = _user()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._command("initdb", "-D", str(self._data), "-U", "berth", "-A", "trust", "-N")
        self.start()

    @property
    def url(self) -> str:
        """Of its ``postgres`` database."""
        return f"postgresql://berth@/postgres?host={self.folder}"

    def start(self) -> None:
        """Begin to answer, at the same address as before."""
        settings = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off "
            "-c max_connections=40 -c shared_buffers=16MB"
        )
        log = str(self.folder / "log")
        self._control("-l", log, "-o", settings, "-w", "-t", "60", "start")

    def stop(self) -> None:
        """At once, as in a crash."""
        self._control("-m", "immediate", "-w", "stop")

    def fail_over(self) -> None:
        """A copy of it takes its place and its address; this one is gone."""
        copy = self.folder / "copy"
        words = ("-D", str(copy), "-h", str(self.folder), "-U", "berth", "-c", "fast", "-R")
        self._command("pg_basebackup", *words)
        self.stop()
        self._data = copy
        self.start()
        self._control("-w", "promote")

    def _control(self, *words: str) -> None:
        self._command("pg_ctl", "-D", str(self._data), *words)

    def _command(self, program: str, *words: str) -> None:
        user = self._user
        done = subprocess.run(
            [str(self._programs / program), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )
        if done.returncode != 0:
            raise NoPostgresql(f"{program} failed: {done.stderr.strip()[-300:]}")


@contextmanager
def private_postgresql() -> Iterator[Postgresql]:
    """A server that may be stopped and started. Raises NoPostgresql."""
    folder = Path(tempfile.mkdtemp(prefix="berth-pg-"))
    try:
        server = Postgresql(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgresql() -> Iterator[str]:
    """A private server; the URL of its ``postgres`` database. Raises NoPostgresql."""
    with private_postgresql() as server:
        yield server.url


def _user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgresql("PostgreSQL does not run as root and there is no other user to run it as")
