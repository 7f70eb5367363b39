"""Interface between a placement policy and the replay: where a job goes at its submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from berth.policies.replay.trace import Ints


class Option(NamedTuple):
    """One partition that a job is submitted to, with the job's resources and run time there."""

    partition: int
    nodes: int
    cores: int
    """Cores, summed over the nodes."""
    gpus: int
    """GPUs, summed over the nodes."""
    memory_bytes: int
    """Memory per node; 0: not specified."""
    runtime_s: float
    """The true run time in this partition."""
    planned_s: float
    """The run time that the backfill assumes."""
    limit_s: float
    """Time limit at which the job is killed; infinite: never."""


@dataclass(frozen=True)
class Present:
    """State of the cluster at a submission; its arrays belong to the replay, so do not keep or
    change them."""

    now_s: float
    free: Ints
    """[units][cores, GPUs, memory in MiB] free on each node, or in each pool."""
    waiting: Ints
    """[partitions] number of waiting jobs."""
    partition_units: tuple[Ints, ...]
    """[partitions] the partition's rows in ``free``."""

    def free_in(self, partition: int) -> tuple[int, int]:
        """Return the idle cores and idle GPUs of a partition."""
        rows = self.free[self.partition_units[partition]]
        return int(rows[:, 0].sum()), int(rows[:, 1].sum())


class Placer(Protocol):
    """A policy under replay, which places jobs at their submission."""

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """Return the options (partitions) of a job, preferred first; the job starts in the first
        with room.

        ``job``: row of the trace. None: the job stays in its partition. Empty: the policy cannot
        judge the job, which stays, too, and is counted. A placement may have a method
        ``same_at(moment_s)``; it returns True if a job submitted at that moment would be placed by
        the same ``Present`` as the last one.
        """
        ...
