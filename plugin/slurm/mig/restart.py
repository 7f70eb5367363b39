"""Restarts Slurm's daemons when a node's gres has changed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from berth.pilot.errors import BerthError

RESTART_TIMEOUT_S = 120.0


class CommandRestarter:
    """Restarts Slurm's daemons by the site's own commands; no shell."""

    def __init__(self, controller: Sequence[str], node: Sequence[str]) -> None:
        self._controller, self._node = controller, node

    def controller(self) -> None:
        """Runs ``restart_controller``."""
        self._run(self._controller)

    def node(self) -> None:
        """Runs ``restart_node``."""
        self._run(self._node)

    def _run(self, command: Sequence[str]) -> None:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=environment,
                timeout=RESTART_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BerthError(f"{command[0]} did not end within {RESTART_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise BerthError(f"{command[0]} could not be started: {error.strerror}") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            last = f": {said[-1][:200]}" if said else ""
            raise BerthError(f"{' '.join(command)} failed with status {done.returncode}{last}")
