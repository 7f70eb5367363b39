"""The site's settings for cutting GPUs (``/etc/berth/mig.toml``): one file, written by root.

The helper reads it as root and takes from it every path and command it uses; callers name none.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr

from berth.pilot.documents import Document, read_toml, unknown_key
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.mig.node import AbsolutePath, NodeSettings
from berth.plugin.scheduler.registry import SCHEDULERS, own_table, scheduler_named

PATH = Path("/etc/berth/mig.toml")
SCHEMA = "berth.mig/1"


class HelperSettings(Document):
    """How unprivileged callers reach the helper: a socket, or a command such as sudo."""

    socket: str | None = None
    command: tuple[str, ...] = ()
    allowed_users: tuple[str, ...] = ()
    """Who may ask besides root."""
    timeout_s: float = Field(default=600.0, gt=0)
    """How long a caller waits for the next word of the helper."""


class TriggerSettings(Document):
    """When a timer or an epilog may re-cut by itself; off unless switched on."""

    enabled: bool = False
    min_dwell_s: float = Field(default=1800.0, ge=0)
    """A layout stays at least so long."""
    min_gain: float = Field(default=0.05, ge=0)
    """Least relative improvement (jobs placed, ...) over leaving the layouts as they are."""
    objectives: str = "jobs"
    """Objectives as ``berth mig plan --objective`` takes them."""


class OutlookSettings(Document):
    """Slices are also cut for jobs that are expected: what came lately, at its rate."""

    enabled: bool = True
    window_s: float = Field(default=4 * 3600.0, gt=0, le=30 * 86400.0)
    """How far back the rate is taken from."""
    horizon_s: float = Field(default=1800.0, gt=0, le=30 * 86400.0)
    """The jobs of so long a time are expected; what comes less than once in it is not cut for."""
    memory: AbsolutePath = "/var/lib/berth-mig-auto/arrivals.json"
    """File that remembers the jobs that were seen; whoever runs ``berth mig auto`` writes it."""


class MigSettings(Document, extra="allow"):
    """All of the file. A table that bears a scheduler's name is checked by that scheduler."""

    schema_: Literal["berth.mig/1"] = Field(default="berth.mig/1", alias="schema")
    state_dir: AbsolutePath = "/var/lib/berth-mig"
    helper: HelperSettings = HelperSettings()
    trigger: TriggerSettings = TriggerSettings()
    outlook: OutlookSettings = OutlookSettings()
    _node: NodeSettings | None = PrivateAttr(None)

    @property
    def node(self) -> NodeSettings | None:
        """Return this node's settings in its scheduler; None: no scheduler gives out its slices."""
        return self._node

    def in_scheduler(self, node: NodeSettings) -> MigSettings:
        """Return the settings with the scheduler's own table."""
        copy = self.model_copy()
        copy._node = node
        return copy


def read_settings(path: Path) -> MigSettings:
    """Read one file, with the table of its scheduler. Raises DocumentError."""
    settings = read_toml(path, MigSettings)
    node: NodeSettings | None = None
    for name, table in (settings.model_extra or {}).items():
        if name not in SCHEDULERS.names():
            raise unknown_key(path, name, MigSettings)
        if node is not None:
            raise DocumentError(path, "is a second scheduler; one gives out the slices", key=name)
        try:
            model = scheduler_named(name).mig_settings()
        except UsageError as error:
            raise DocumentError(path, error.message, key=name) from None
        node = own_table(name, table, model, source=path)
    return settings if node is None else settings.in_scheduler(node)


def load(path: Path | None = None) -> MigSettings:
    """Read the settings of this machine; the defaults where there is no file.

    ``BERTH_MIG_CONFIG`` names another file for unprivileged callers. Raises DocumentError.
    """
    named = path or (Path(os.environ["BERTH_MIG_CONFIG"]) if _named() else None)
    if named is None and not PATH.exists():
        return MigSettings(schema=SCHEMA)
    return read_settings(named or PATH)


def load_trusted(path: Path = PATH) -> MigSettings:
    """Read the settings for a privileged process: only root, or its own user, may change the file.

    Raises DocumentError.
    """
    refuse_if_shared(path)
    return read_settings(path)


def refuse_if_shared(path: Path) -> None:
    """Raises DocumentError for a file that others can change, or that is not there."""
    for checked in (path, path.parent):
        try:
            info = checked.stat()
        except FileNotFoundError:
            raise DocumentError(path, "does not exist", hint="see docs/mig-apply.md") from None
        except OSError as error:
            raise DocumentError(path, f"cannot be read: {error.strerror}") from None
        # In a sticky folder others can add files, not replace this one; a file has no such bit.
        sticky = stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        if info.st_uid not in (0, os.geteuid()) or shared:
            raise DocumentError(
                path,
                f"can be changed by others ({checked})",
                hint=f"chown root {checked}; chmod go-w {checked}",
            )


def _named() -> bool:
    return bool(os.environ.get("BERTH_MIG_CONFIG"))
