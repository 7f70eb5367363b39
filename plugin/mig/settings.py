"""The site's settings for cutting GPUs (``/etc/berth/mig.toml``): one file, written by root.

The helper reads it as root and takes from it every path and command it uses; callers name none.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from berth.pilot.documents import Document, read_toml
from berth.pilot.errors import DocumentError

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


class SlurmSettings(Document):
    """The node in Slurm and the files and commands that change its gres."""

    node: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    slurm_conf: str
    gres_conf: str
    mode: Literal["explicit", "autodetect"] = "explicit"
    restart_controller: tuple[str, ...]
    restart_node: tuple[str, ...]
    padding: str = "/dev/berth-off{number}"
    device_map: str | None = None
    type_pattern: str = "{profile}"
    ready_timeout_s: float = Field(default=120.0, gt=0)

    @field_validator("slurm_conf", "gres_conf", "padding", "device_map")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value

    @field_validator("restart_controller", "restart_node")
    @classmethod
    def _program(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not value[0].startswith("/"):
            raise ValueError("must be a list: a program by its absolute path and its arguments")
        return value

    @field_validator("padding")
    @classmethod
    def _numbered(cls, value: str) -> str:
        if value.replace("{number}", "", 1).count("{") or "{number}" not in value:
            raise ValueError("must hold {number} once")
        return value

    @field_validator("type_pattern")
    @classmethod
    def _profiled(cls, value: str) -> str:
        if value.count("{") != 1 or "{profile}" not in value:
            raise ValueError("must hold {profile} once")
        return value


class TriggerSettings(Document):
    """When a timer or an epilog may re-cut by itself; off unless switched on."""

    enabled: bool = False
    min_dwell_s: float = Field(default=1800.0, ge=0)
    """A layout stays at least so long."""
    min_gain: float = Field(default=0.05, ge=0)
    """Least relative improvement (jobs placed, ...) over leaving the layouts as they are."""
    objectives: str = "jobs"
    """As ``berth mig plan --objective``."""


class OutlookSettings(Document):
    """Slices are also cut for jobs that are expected: what came lately, at its rate."""

    enabled: bool = True
    window_s: float = Field(default=4 * 3600.0, gt=0, le=30 * 86400.0)
    """So far back the rate is taken from."""
    horizon_s: float = Field(default=1800.0, gt=0, le=30 * 86400.0)
    """The jobs of so long a time are expected; what comes less than once in it is not cut for."""
    memory: str = "/var/lib/berth-mig-auto/arrivals.json"
    """Where the jobs that were seen are remembered; whoever runs ``berth mig auto`` writes it."""

    @field_validator("memory")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value


class MigSettings(Document):
    """All of the file."""

    schema_: Literal["berth.mig/1"] = Field(default="berth.mig/1", alias="schema")
    state_dir: str = "/var/lib/berth-mig"
    helper: HelperSettings = HelperSettings()
    slurm: SlurmSettings | None = None
    trigger: TriggerSettings = TriggerSettings()
    outlook: OutlookSettings = OutlookSettings()

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value


def load(path: Path | None = None) -> MigSettings:
    """The settings of this machine; the defaults where there is no file.

    ``BERTH_MIG_CONFIG`` names another file for unprivileged callers. Raises DocumentError.
    """
    named = path or (Path(os.environ["BERTH_MIG_CONFIG"]) if _named() else None)
    if named is None and not PATH.exists():
        return MigSettings(schema=SCHEMA)
    return read_toml(named or PATH, MigSettings)


def load_trusted(path: Path = PATH) -> MigSettings:
    """For a privileged process: only a file that nobody but root, or its own user, can change.

    Raises DocumentError.
    """
    for one in (path, path.parent):
        try:
            info = one.stat()
        except FileNotFoundError:
            raise DocumentError(path, "does not exist", hint="see docs/mig-apply.md") from None
        except OSError as error:
            raise DocumentError(path, f"cannot be read: {error.strerror}") from None
        shared = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not info.st_mode & stat.S_ISVTX
        if info.st_uid not in (0, os.geteuid()) or shared:
            raise DocumentError(
                path,
                f"can be changed by others ({one})",
                hint=f"chown root {one}; chmod go-w {one}",
            )
    return read_toml(path, MigSettings)


def _named() -> bool:
    return bool(os.environ.get("BERTH_MIG_CONFIG"))
