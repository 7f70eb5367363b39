"""The result of a replay: when and where each job ran, and what became of those that did not."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from berth.policies.mig.layout import Layout
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.settings import Settings
from berth.policies.replay.trace import Flags, Floats, Ints, Trace


@dataclass(frozen=True, slots=True)
class Recut:
    """One GPU that was cut anew."""

    at_s: float
    gpus: str
    """Name of the ``SlicedGpus``."""
    gpu: int
    before: Layout
    after: Layout
    ready_s: float
    """Unix time from which on the new slices take jobs."""


@dataclass(frozen=True)
class Counts:
    """How many jobs; ``read`` is ``replayed`` + ``refused``, ``replayed`` is ``ended`` + ``lost``
    + ``never``."""

    read: int
    replayed: int
    """Submitted to the replayed scheduler."""
    refused: dict[str, int]
    """Jobs that could not be submitted, by reason."""
    ended: int
    killed: int
    """Jobs that ended by their time limit."""
    lost: int
    """Jobs lost with a node that broke, and not requeued."""
    never: int
    """Jobs that did not start: they wait for a job that was refused or lost."""
    moved: int
    """Jobs that ran in another partition than they were submitted to."""
    not_judged: int
    """Jobs that stayed since the policy was asked and nobody knows the truth elsewhere."""
    requeued: int
    """How often a job began again."""
    policy_failed: int = 0
    """Jobs that stayed, as in production, since the policy raised an error."""
    killed_memory: int = 0
    """Jobs that ended within their limit and needed more memory than they were given."""

    @property
    def adds_up(self) -> bool:
        """Return whether every job is counted exactly once."""
        all_read = self.read == self.replayed + sum(self.refused.values())
        return all_read and self.replayed == self.ended + self.lost + self.never


@dataclass(frozen=True)
class Replayed:
    """[jobs] as the trace has them; NaN and -1 for those that did not run."""

    trace: Trace
    cluster: Cluster
    settings: Settings
    start_s: Floats
    end_s: Floats
    eligible_s: Floats
    """When nothing but the queue held the job: after its dependency and its array's limit."""
    partition: Ints
    nodes: Ints
    cores: Ints
    """Cores in all."""
    gpus: Ints
    memory_bytes: Ints
    """Memory in all."""
    limit_s: Floats
    """Infinite: the job is never killed."""
    planned_s: Floats
    killed: Flags
    killed_memory: Flags
    moved: Flags
    not_judged: Flags
    requeues: Ints
    refused: Ints
    """Place in ``inputs.REASONS``; 0: not refused."""
    counts: Counts
    units: tuple[Ints, ...] = field(default=())
    """[jobs] nodes that each job ran on; empty: pools."""
    recuts: tuple[Recut, ...] = ()
    """GPUs that were cut anew, in order of time."""

    @property
    def ran(self) -> Flags:
        """Return [jobs] whether each ended."""
        return np.isfinite(self.start_s) & np.isfinite(self.end_s)

    @property
    def wait_s(self) -> Floats:
        """Return [jobs] the seconds from being eligible to the start."""
        return self.start_s - self.eligible_s
