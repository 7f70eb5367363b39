"""Settings of the simulated scheduler: backfill, limits, and MIG re-partitioning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.policies.mig.plan import Hysteresis


class Backfill(StrEnum):
    """Which later jobs may start before earlier ones."""

    FCFS = "fcfs"
    """No later job may: the first job that cannot start holds up all jobs behind it."""
    EASY = "easy"
    """Later jobs that do not delay the first waiting job (Lifka 1995)."""
    REPLANNED = "replanned"
    """As in Slurm: at every event, jobs start in order until one cannot. Every ``backfill_s``
    seconds, all waiting jobs get new reservations in order, and those that can start now do.
    Reservations hold whole nodes; in pools, what the job needs."""


PATIENCE = Hysteresis(min_dwell_s=1_800.0, min_gain=0.05)
"""The same limits as the defaults of ``[trigger]`` in the site file."""


@dataclass(frozen=True, slots=True)
class Recutting:
    """Rules for re-partitioning MIG GPUs during the replay, as in ``berth mig auto``."""

    every_s: float = 300.0
    """Seconds between two planning runs for the waiting jobs."""
    cost_s: float = 60.0
    """Seconds from the decision until the new slices take jobs. Until then the GPU is drained: no
    job starts on it, but running jobs continue."""
    objectives: str = "jobs"
    patience: Hysteresis = PATIENCE
    window_s: float = 4 * 3_600.0
    """Jobs that arrived in the last so many seconds are expected to keep arriving at that rate; 0:
    plan for waiting jobs only."""
    horizon_s: float = 1_800.0
    solver: str = "heuristic"
    """Solver as in ``berth mig plan --solver``; the heuristic takes milliseconds for a fleet."""

    def __post_init__(self) -> None:
        if not (self.every_s > 0 and self.cost_s >= 0):
            raise UsageError("GPUs are looked at every some seconds, and cut in no less than 0 s")


@dataclass(frozen=True, slots=True)
class Settings:
    """The simulated scheduler's configuration."""

    backfill: Backfill = Backfill.EASY
    kill_at_limit: bool = True
    kill_at_memory: bool = True
    """Count jobs as killed whose recorded peak memory exceeds their allocation. They still hold
    their nodes for their whole run time, because the time of the peak is not recorded."""
    recutting: Recutting | None = None
    """Rules for re-partitioning MIG GPUs; None: layouts do not change."""
    unlimited_plan_s: float = 86_400.0
    """Seconds for which the scheduler plans a job without a time limit in a partition without a
    longest time. Such a job is never killed."""
    cycle_s: float = 0.0
    """The scheduler's cycle in seconds: jobs start at multiples of it only; 0: at every event."""
    backfill_s: float = 30.0
    """Least time in seconds between two backfill passes, for ``Backfill.REPLANNED``."""
    resolution_s: float = 0.0
    """Seconds by which a job's planned time is extended in reservations."""
    start_overhead_s: float = 0.0
    """Seconds from a job's allocation until it begins."""
    end_overhead_s: float = 0.0
    """Seconds from a job's end until its resources are free."""
    compiled: bool | None = None
    """Use numba; None: use it where it is installed and the trace is long enough to gain."""
