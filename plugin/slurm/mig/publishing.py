"""Writes a node's new gres into Slurm's configuration: on this node, or through the controller.

Configuration files are locked and replaced as a whole, and keep their owner and mode. Slurm's
daemons are restarted by commands from the site's own settings.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from berth.pilot.documents import write_text
from berth.pilot.errors import BerthError
from berth.plugin.slurm.mig.slots import with_node_gres

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


def run_site_command(command: Sequence[str], *, timeout_s: float, sent: bytes = b"") -> None:
    """Run a command, with ``sent`` on its standard input. Raises BerthError where it fails, with
    the last line of its standard error, or does not end in time."""
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
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = lines[-1][:300] if lines else "no reason"
        raise BerthError(f"{' '.join(command)} failed with status {done.returncode}: {said}")


RESTART_TIMEOUT_S = 120.0


class CommandRestarter:
    """Restarts Slurm's daemons by the commands in the site's settings, without a shell."""

    def __init__(self, controller: Sequence[str], node: Sequence[str]) -> None:
        self._controller, self._node = controller, node

    def controller(self) -> None:
        """Restart slurmctld by ``restart_controller``. Raises BerthError."""
        run_site_command(self._controller, timeout_s=RESTART_TIMEOUT_S)

    def node(self) -> None:
        """Restart the node's slurmd by ``restart_node``. Raises BerthError."""
        run_site_command(self._node, timeout_s=RESTART_TIMEOUT_S)


POLL_S = 0.05


@contextmanager
def one_writer(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Lock a configuration file against other writers, such as other nodes that share slurm.conf.

    The lock is on a file beside it, because the configuration file itself is replaced; it works
    over NFS where NFS supports locks. Raises BerthError where another writer does not finish in
    time.
    """
    real = path.resolve()
    beside = real.with_name(f".{real.name}.berth-lock")
    try:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BerthError(f"{beside}: cannot be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + timeout_s
        while not _is_locked(lock):
            if time.monotonic() > deadline:
                raise BerthError(f"{path}: another node's cut has been at it for {timeout_s:.0f} s")
            time.sleep(POLL_S)
        yield
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # this file system has no locks: go on without one
    return True


def read_config_file(path: Path) -> str:
    """Return the text of a configuration file. Raises BerthError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BerthError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise BerthError(f"{path}: cannot be read: {error.strerror}") from None


def replace_config_file(path: Path, text: str) -> None:
    """Replace a file atomically and flush it to disk; a symbolic link stays, and its target is
    replaced."""
    try:
        write_text(path.resolve(), text, durable=True)
    except OSError as error:
        raise BerthError(f"{path}: cannot be written: {error.strerror}") from None


CONTROLLER_TIMEOUT_S = 300.0


class LocalPublisher:
    """Writes Slurm's configuration files on this node, which may change the whole cluster's
    configuration."""

    def __init__(
        self,
        node: str,
        slurm_conf: Path,
        gres_conf: Path,
        restart: Callable[[], None],
        *,
        timeout_s: float,
    ) -> None:
        self._node, self._slurm_conf, self._gres_conf = node, slurm_conf, gres_conf
        self._restart = restart
        self._timeout_s = timeout_s

    @contextmanager
    def published(self, gres: str, lines: str) -> Iterator[None]:
        """Write the files and restart slurmctld; no other node's change begins before the context
        ends."""
        conf = self._slurm_conf
        with one_writer(conf, timeout_s=self._timeout_s):
            whole = with_node_gres(read_config_file(conf), self._node, gres, source=str(conf))
            replace_config_file(self._gres_conf, lines)
            replace_config_file(conf, whole)
            self._restart()
            yield


class ControllerPublisher:
    """Sends the change to ``berth-mig-node`` on the controller, which can change only this node's
    gres."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    @contextmanager
    def published(self, gres: str, lines: str) -> Iterator[None]:
        """Send the gres to the controller, which writes and restarts. Raises BerthError where it
        refuses."""
        request = json.dumps({"v": 1, "gres": gres, "lines": lines}).encode() + b"\n"
        run_site_command(self._command, timeout_s=CONTROLLER_TIMEOUT_S, sent=request)
        yield
