"""The one way in for commands and the timer: cut here when we may, else ask the helper."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from berth.pilot.errors import BerthError
from berth.plugin.mig.apply import Applier, GpuPreview, Report
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.keeper import Keeper, NoKeeper
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import MigSettings, SlurmSettings
from berth.plugin.mig.slurm_keeper import NodeFiles, SlurmKeeper
from berth.plugin.mig.target import Target

Tell = Callable[[str], None]
RESTART_TIMEOUT_S = 120.0


class Door(Protocol):
    """What can be asked about and done to this machine's GPUs. All raise BerthError."""

    def inventory(self) -> Fleet:
        """The GPUs as they are."""
        ...

    def preview(self, target: Target) -> tuple[GpuPreview, ...]:
        """What an apply would do; changes nothing."""
        ...

    def apply(self, target: Target, *, wait_s: float = 0.0, enable_mig: bool = False) -> Report:
        """Reach the target or leave all as it was."""
        ...

    def resume(self) -> Report:
        """Bring an unfinished apply to its end."""
        ...


class LocalDoor:
    """In this process, with this process's rights."""

    def __init__(self, settings: MigSettings, tell: Tell = lambda _: None) -> None:
        self._settings = settings
        self._tell = tell

    def inventory(self) -> Fleet:
        with Nvml() as nvml:
            return nvml.read()

    def preview(self, target: Target) -> tuple[GpuPreview, ...]:
        with Nvml() as nvml:
            return self._applier(nvml).preview(target)

    def apply(self, target: Target, *, wait_s: float = 0.0, enable_mig: bool = False) -> Report:
        with Nvml() as nvml:
            return self._applier(nvml).apply(target, wait_s=wait_s, enable_mig=enable_mig)

    def resume(self) -> Report:
        with Nvml() as nvml:
            return self._applier(nvml).resume()

    def _applier(self, nvml: Nvml) -> Applier:
        keeper = keeper_of(self._settings.slurm)
        return Applier(nvml, keeper, Path(self._settings.state_dir), tell=self._tell)


class CommandRestarter:
    """Restarts Slurm's daemons by the site's own commands; no shell."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings

    def controller(self) -> None:
        """Runs ``restart_controller``."""
        self._run(self._settings.restart_controller)

    def node(self) -> None:
        """Runs ``restart_node``."""
        self._run(self._settings.restart_node)

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


def keeper_of(settings: SlurmSettings | None) -> Keeper:
    """The scheduler's keeper for this node."""
    if settings is None:
        return NoKeeper()
    files = NodeFiles(
        node=settings.node,
        slurm_conf=Path(settings.slurm_conf),
        gres_conf=Path(settings.gres_conf),
        padding=settings.padding,
        device_map=None if settings.device_map is None else Path(settings.device_map),
        type_pattern=settings.type_pattern,
        explicit=settings.mode == "explicit",
        ready_timeout_s=settings.ready_timeout_s,
    )
    return SlurmKeeper(files, CommandRestarter(settings))


def open_door(settings: MigSettings, tell: Tell = lambda _: None) -> Door:
    """The helper where one is configured and we are not root, else this process."""
    helper = settings.helper
    if os.geteuid() != 0 and (helper.socket or helper.command):
        from berth.plugin.mig.helper_client import HelperDoor  # noqa: PLC0415 (only when needed)

        return HelperDoor(helper, tell)
    return LocalDoor(settings, tell)
