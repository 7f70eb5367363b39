"""The ``[slurm]`` table of ``/etc/berth/mig.toml``: one node's settings under Slurm."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from berth.plugin.mig.node import AbsolutePath, Keeper, NodeSettings, SlicesAsked, holding
from berth.plugin.slurm.mig import queue
from berth.plugin.slurm.mig.keeper import NodeFiles, SlurmKeeper
from berth.plugin.slurm.mig.publishing import CommandRestarter, ControllerPublisher
from berth.policies.mig.demands import Demand


def _program(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0].startswith("/"):
        raise ValueError("must be a list: a program by its absolute path and its arguments")
    return value


Program = Annotated[tuple[str, ...], AfterValidator(_program)]


class SlurmNode(NodeSettings):
    """The node in Slurm and the files and commands that change its gres."""

    slurm_conf: AbsolutePath
    gres_conf: AbsolutePath
    mode: Literal["explicit", "autodetect"] = "explicit"
    controller: Program = ()
    """The command that sends a request to ``berth-mig-node`` on the controller."""
    restart_controller: Program = ()
    """The command that restarts slurmctld, set instead of ``controller`` where this node writes
    slurm.conf itself."""
    restart_node: Program
    padding: Annotated[AbsolutePath, holding("number")] = "/dev/berth-off{number}"
    device_map: AbsolutePath | None = None
    ready_timeout_s: float = Field(default=120.0, gt=0)

    @model_validator(mode="after")
    def _one_way(self) -> SlurmNode:
        if bool(self.controller) == bool(self.restart_controller):
            raise ValueError("needs controller, or else restart_controller")
        return self

    def keeper(self) -> Keeper:
        """Return the SlurmKeeper that these settings describe."""
        restarter = CommandRestarter(self.restart_controller, self.restart_node)
        publisher = ControllerPublisher(self.controller) if self.controller else None
        files = NodeFiles(
            node=self.node,
            slurm_conf=Path(self.slurm_conf),
            gres_conf=Path(self.gres_conf),
            padding=self.padding,
            device_map=None if self.device_map is None else Path(self.device_map),
            type_pattern=self.type_pattern,
            explicit=self.mode == "explicit",
            ready_timeout_s=self.ready_timeout_s,
        )
        return SlurmKeeper(files, restarter, publisher=publisher)

    def pending(self, profiles: Collection[str]) -> tuple[Demand, ...]:
        """Return the slices of these profiles that pending jobs wait for. Raises SchedulerError."""
        return queue.pending(profiles, self.type_pattern)

    def asked(self, profiles: Collection[str]) -> Iterable[SlicesAsked]:
        """Return the slices requested by all jobs that Slurm still knows. Raises SchedulerError."""
        return queue.seen_now(profiles, self.type_pattern)
