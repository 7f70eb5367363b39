"""The interface between a policy and the replay: where a job goes at its submission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from berth.policies.replay.trace import Ints


class Option(NamedTuple):
    """One partition that a job is submitted to, and what it asks for and does there."""

    partition: int
    nodes: int
    cores: int
    """Cores in all."""
    gpus: int
    """GPUs in all."""
    memory_bytes: int
    """Memory on each node; 0: not counted."""
    runtime_s: float
    """The true run time."""
    planned_s: float
    """The run time that the backfill plans with."""
    limit_s: float
    """The job is killed then; infinite: never."""


@dataclass(frozen=True)
class Present:
    """The cluster at a submission. Arrays are the replay's own: read, never keep or change."""

    now_s: float
    free: Ints
    """[units][cores, GPUs, memory in MiB] of nodes, or pools."""
    waiting: Ints
    """[partitions] jobs in the queue."""
    partition_units: tuple[Ints, ...]
    """[partitions] rows of ``free``."""
    slices: Ints | None = None
    """[partitions] MIG slices that there are at present; None: no GPU is cut."""

    def free_in(self, partition: int) -> tuple[int, int]:
        """Return the idle cores and GPUs of a partition."""
        rows = self.free[self.partition_units[partition]]
        return int(rows[:, 0].sum()), int(rows[:, 1].sum())


class Placement(Protocol):
    """A policy under replay."""

    def place(self, job: int, present: Present) -> Sequence[Option] | None:
        """Return options for a row of the trace, the preferred first: the job starts where it can
        first.

        None: it stays where it was submitted. An empty sequence: it cannot be judged (counted) and
        stays, too. A placement may have ``same_at(moment_s)``: where it says that a job submitted
        then is placed as by the last ``Present``, that one is given with the new time.
        """
        ...


@runtime_checkable
class AsksForSlices(Protocol):
    """A Placement that says which MIG slices would do for a job, whether or not there are any."""

    def slices_for(self, job: int) -> Sequence[int]:
        """Return partitions that would do for the job placed last; none where it prefers another
        place."""
        ...
