"""The one way in for commands and the timer: cut here when we may, else ask the helper."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from berth.plugin.mig.apply import Applier, GpuPreview, Report, read_fleet
from berth.plugin.mig.inventory import Fleet
from berth.plugin.mig.keeper import Keeper, NoKeeper
from berth.plugin.mig.nvml import Nvml
from berth.plugin.mig.settings import MigSettings
from berth.plugin.mig.target import Target

Tell = Callable[[str], None]


class GpuAccess(Protocol):
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


class LocalAccess:
    """In this process, with this process's rights."""

    def __init__(self, settings: MigSettings, tell: Tell = lambda _: None) -> None:
        self._settings = settings
        self._tell = tell

    def inventory(self) -> Fleet:
        with Nvml() as nvml:
            return read_fleet(nvml, Path(self._settings.state_dir))

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
        node = self._settings.node
        keeper: Keeper = NoKeeper() if node is None else node.keeper()
        return Applier(nvml, keeper, Path(self._settings.state_dir), tell=self._tell)


def open_access(settings: MigSettings, tell: Tell = lambda _: None) -> GpuAccess:
    """The helper where one is configured and we are not root, else this process."""
    helper = settings.helper
    if os.geteuid() != 0 and (helper.socket or helper.command):
        from berth.plugin.mig.helper_client import HelperAccess  # noqa: PLC0415 (only when needed)

        return HelperAccess(helper, tell)
    return LocalAccess(settings, tell)
