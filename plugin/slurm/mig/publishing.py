"""How a node's new gres comes into Slurm's configuration: written here, or by the controller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from berth.pilot.errors import BerthError
from berth.plugin.slurm.mig import config_files, gres_files
from berth.plugin.slurm.mig.site_command import run_site_command

CONTROLLER_TIMEOUT_S = 300.0


class Publisher(Protocol):
    """Changes one node's ``Gres=`` and gres.conf lines and has slurmctld read them."""

    def published(self, gres: str, lines: str) -> AbstractContextManager[None]:
        """Published while in it. Raises BerthError."""
        ...


class LocalPublisher:
    """Writes the files from here: this node can change the whole cluster's configuration."""

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
        """See Publisher. No other node's change begins before this one is known to Slurm."""
        conf = self._slurm_conf
        with config_files.one_writer(conf, timeout_s=self._timeout_s):
            whole = gres_files.with_node_gres(
                config_files.read(conf), self._node, gres, source=str(conf)
            )
            config_files.replace(self._gres_conf, lines)
            config_files.replace(conf, whole)
            self._restart()
            yield


class ControllerPublisher:
    """Asks ``berth-mig-node`` on the controller, which changes this node's and no other's."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)

    @contextmanager
    def published(self, gres: str, lines: str) -> Iterator[None]:
        """See Publisher."""
        asked = json.dumps({"v": 1, "gres": gres, "lines": lines}).encode() + b"\n"
        done = run_site_command(self._command, timeout_s=CONTROLLER_TIMEOUT_S, sent=asked)
        if done.status != 0:
            raise BerthError(f"the controller refused: {done.last_line[:300] or 'no reason'}")
        yield
