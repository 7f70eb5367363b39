"""Settings of the simulated scheduler: backfill and limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Backfill(StrEnum):
    """Which later jobs may start before earlier ones."""

    FCFS = "fcfs"
    """No later job may: the first job that cannot start holds up all jobs behind it."""
    EASY = "easy"
    """Later jobs that do not delay the first waiting job (Lifka 1995)."""
    REPLANNED = "replanned"
    """As in Slurm: at every event, jobs start in order until one cannot. Every ``backfill_s``
    seconds, all waiting jobs get new reservations in order, and those that can start now do.
    Reservations hold whole nodes, so that a pool is replayed as its nodes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The simulated scheduler's configuration."""

    backfill: Backfill = Backfill.EASY
    kill_at_limit: bool = True
    kill_at_memory: bool = True
    """Count jobs as killed whose recorded peak memory exceeds their allocation. They still hold
    their nodes for their whole run time, because the time of the peak is not recorded."""
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
