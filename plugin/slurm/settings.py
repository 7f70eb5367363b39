"""Slurm's own table in the site file, ``[slurm]``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from berth.pilot.documents import Document


class SlurmSettings(Document):
    """`[slurm]`: only at a site with `scheduler = "slurm"`."""

    read_with: Literal["commands", "pyslurm"] = Field(
        "commands",
        description="how queues and nodes are read: by Slurm's own `commands`, or by `pyslurm` "
        "(only where it is installed for the very Slurm that runs here)",
    )
    accounts_refresh_s: float = Field(
        60.0,
        ge=1,
        description="how often associations and QOS are read (`sacctmgr`), in seconds; a user who "
        "is new to a partition is sent there only after that",
    )
