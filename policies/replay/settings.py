"""The settings of the replayed scheduler: how it orders and starts jobs, and cuts GPUs anew."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from berth.pilot.errors import UsageError
from berth.policies.mig.plan import Hysteresis


class Backfill(StrEnum):
    """Which later jobs may start before earlier ones."""

    FCFS = "fcfs"
    """No later job does: the first job that cannot start holds up all behind it."""
    EASY = "easy"
    """Later jobs that do not delay the first waiting job (Lifka 1995)."""
    CONSERVATIVE = "conservative"
    """Later jobs that delay no job ahead of them (Mu'alem and Feitelson 2001): every waiting job
    has a reservation, which moves to earlier times only."""
    REPLANNED = "replanned"
    """Slurm's way: whenever something happens jobs start in order until one cannot; every
    ``backfill_s`` all waiting jobs get reservations anew, in order, and those that can start do.
    Reservations hold nodes whole; in pools what the job needs, but see ``whole_pools``."""


@dataclass(frozen=True, slots=True)
class Multifactor:
    """Priority as a weighted sum of factors from 0 to 1; the larger starts first."""

    age: float = 1_000.0
    max_age_s: float = 7 * 86_400.0
    fair_share: float = 10_000.0
    """Factor ``2 ** -(used / share)``: part of the decayed usage over an equal part of it."""
    half_life_s: float = 7 * 86_400.0
    size: float = 0.0
    partition: float = 0.0
    period_s: float = 300.0
    """Seconds between two computations of priorities, at the least."""


PATIENCE = Hysteresis(min_dwell_s=1_800.0, min_gain=0.05)
"""The site's ``[trigger]`` defaults."""


@dataclass(frozen=True, slots=True)
class Recutting:
    """Rules by which GPUs are cut anew while jobs come: those of ``berth mig auto``."""

    every_s: float = 300.0
    """Seconds between two looks at the queue."""
    cost_s: float = 60.0
    """From the decision until the new slices take jobs. Until then the GPU is drained: no job
    starts on it; those that run there run on."""
    objectives: str = "jobs"
    patience: Hysteresis = PATIENCE
    window_s: float = 4 * 3_600.0
    """Jobs that came so lately are expected to go on coming; 0: only what waits counts."""
    horizon_s: float = 1_800.0
    solver: str = "heuristic"
    """A name for ``berth mig plan --solver``; the heuristic needs milliseconds for a fleet."""

    def __post_init__(self) -> None:
        if not (self.every_s > 0 and self.cost_s >= 0):
            raise UsageError("GPUs are looked at every some seconds, and cut in no less than 0 s")


@dataclass(frozen=True, slots=True)
class Settings:
    """The scheduler's configuration."""

    backfill: Backfill = Backfill.EASY
    priority: Multifactor | None = None
    """None: in order of submission."""
    kill_at_limit: bool = True
    requeue_failed: bool = True
    """Jobs of a node that breaks start again; else they are lost."""
    kill_at_memory: bool = True
    """Jobs that need more memory than they were given are counted as killed by it. They hold their
    nodes as long as they ran in fact: when they needed most nobody recorded."""
    recutting: Recutting | None = None
    """None: GPUs that are cut into slices stay as they are."""
    default_limit_s: float = 86_400.0
    """Limit of jobs that ask for no time, in partitions without a longest one."""
    cycle_s: float = 0.0
    """The scheduler looks at its queue at whole multiples of this only; 0: at every event."""
    backfill_s: float = 30.0
    """Seconds between two passes of a backfill that is replanned."""
    resolution_s: float = 0.0
    """Seconds longer than planned that a job stands in the way of others."""
    whole_pools: bool = False
    """Reservations hold all of a pool, as Slurm's hold nodes: for a pool that is one node."""
    start_overhead_s: float = 0.0
    """Seconds from a job's allocation until it begins."""
    end_overhead_s: float = 0.0
    """Seconds from a job's end until what it held is free."""
    compiled: bool | None = None
    """Use numba; None: where it is installed and the trace is long enough to gain by it."""
