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


@contextmanager
def postgresql() -> Iterator[str]:
    """A private server; the URL of its ``postgres`` database. Raises NoPostgresql."""
    programs = server_programs()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="berth-pg-"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)

        def command(*words: str) -> subprocess.CompletedProcess[str]:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder)},
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
            )
            if done.returncode != 0:
                raise NoPostgresql(f"{Path(words[0]).name} failed: {done.stderr.strip()[-300:]}")
            return done

        data = str(folder / "data")
        settings = (
            f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off "
            "-c max_connections=40 -c shared_buffers=16MB"
        )
        command(str(programs / "initdb"), "-D", data, "-U", "berth", "-A", "trust", "-N")
        control = str(programs / "pg_ctl")
        log = str(folder / "log")
        command(control, "-D", data, "-l", log, "-o", settings, "-w", "-t", "60", "start")
        try:
            yield f"postgresql://berth@/postgres?host={folder}"
        finally:
            command(control, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgresql("PostgreSQL does not run as root and there is no other user to run it as")
