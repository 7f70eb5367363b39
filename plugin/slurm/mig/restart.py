"""Restarts Slurm's daemons when a node's gres has changed."""

from __future__ import annotations

from collections.abc import Sequence

from berth.pilot.errors import BerthError
from berth.plugin.slurm.mig.site_command import run_site_command

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
        done = run_site_command(command, timeout_s=RESTART_TIMEOUT_S)
        if done.status != 0:
            last = f": {done.last_line[:200]}" if done.last_line else ""
            raise BerthError(f"{' '.join(command)} failed with status {done.status}{last}")
