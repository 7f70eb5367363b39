"""The site's settings for MIG partitioning (``/etc/berth/mig.toml``), a file written by root.

The helper reads the file as root and takes every path and command from it; callers name none.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr

from berth.pilot.document_errors import unknown_key
from berth.pilot.documents import Document, read_toml
from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.mig.node import AbsolutePath, NodeSettings
from berth.plugin.scheduler.registry import scheduler_named
from berth.plugin.site.schedulers import SCHEDULERS, own_table

PATH = Path("/etc/berth/mig.toml")
SCHEMA = "berth.mig/1"


class HelperSettings(Document):
    """How unprivileged callers reach the helper: by a socket, or by a command such as sudo."""

    socket: str | None = None
    command: tuple[str, ...] = ()
    allowed_users: tuple[str, ...] = ()
    """Users besides root who may use the helper."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that a caller waits for the helper's next line."""


class TriggerSettings(Document):
    """When a timer or an epilog may repartition GPUs automatically; off by default."""

    enabled: bool = False
    min_dwell_s: float = Field(default=1800.0, ge=0)
    """The least time in seconds that a layout stays in place."""
    min_gain: float = Field(default=0.05, ge=0)
    """The least relative improvement (for example in jobs placed) over keeping the layouts."""
    objectives: str = "jobs"
    """The planner's objectives, as for ``berth mig plan --objective``."""


class OutlookSettings(Document):
    """How demand from expected jobs is derived from recent jobs."""

    enabled: bool = True
    window_s: float = Field(default=4 * 3600.0, gt=0, le=30 * 86400.0)
    """Length in seconds of the recent period from which the arrival rate is computed."""
    horizon_s: float = Field(default=1800.0, gt=0, le=30 * 86400.0)
    """Length in seconds of the future period whose jobs are expected. A slice that is requested
    less than once in this time is not planned for."""
    memory: AbsolutePath = "/var/lib/berth-mig-auto/arrivals.json"
    """File that records the jobs seen; the user who runs ``berth mig auto`` writes it."""


class MigSettings(Document, extra="allow"):
    """All settings of ``mig.toml``. The table named after a scheduler is validated by that
    scheduler."""

    schema_: Literal["berth.mig/1"] = Field(default="berth.mig/1", alias="schema")
    state_dir: AbsolutePath = "/var/lib/berth-mig"
    helper: HelperSettings = HelperSettings()
    trigger: TriggerSettings = TriggerSettings()
    outlook: OutlookSettings = OutlookSettings()
    _node: NodeSettings | None = PrivateAttr(None)

    @property
    def node(self) -> NodeSettings | None:
        """Return this node's settings under its scheduler; None: no scheduler allocates its
        slices."""
        return self._node

    @property
    def node_name(self) -> str:
        """Return this machine's name in fleet files and plans: its scheduler's, or the host
        name."""
        return self._node.node if self._node else socket.gethostname().partition(".")[0]

    def in_scheduler(self, node: NodeSettings) -> MigSettings:
        """Return a copy of the settings with the scheduler's own table added."""
        copy = self.model_copy()
        copy._node = node
        return copy


def read_settings(path: Path) -> MigSettings:
    """Read one settings file, with its scheduler's table. Raises DocumentError."""
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
        table_of_node = own_table(name, table, model, source=path)
        assert isinstance(table_of_node, NodeSettings)  # noqa: S101 - the scheduler's promise
        node = table_of_node
    return settings if node is None else settings.in_scheduler(node)


def load(path: Path | None = None) -> MigSettings:
    """Return this machine's settings; the defaults where there is no file.

    ``BERTH_MIG_CONFIG`` names another file for unprivileged callers. Raises DocumentError.
    """
    variable = os.environ.get("BERTH_MIG_CONFIG")
    named = path or (Path(variable) if variable else None)
    if named is None and not PATH.exists():
        return MigSettings(schema=SCHEMA)
    return read_settings(named or PATH)


def load_trusted(path: Path = PATH) -> MigSettings:
    """Read the settings for a privileged process.

    Raises DocumentError where anybody but root or this process's user may change the file.
    """
    refuse_if_shared(path)
    return read_settings(path)


def refuse_if_shared(path: Path) -> None:
    """Raise DocumentError for a file that other users can change, or that does not exist."""
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
