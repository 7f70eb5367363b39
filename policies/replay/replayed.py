"""What a replay gives: when and where each job ran, and what became of those that did not."""

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
    """From then on the new slices take jobs."""


@dataclass(frozen=True)
class Counts:
    """How many jobs; ``read`` is ``replayed`` + ``refused``, ``replayed`` is ``ended`` + ``lost``
    + ``never``."""

    read: int
    replayed: int
    """Submitted to the replayed scheduler."""
    refused: dict[str, int]
    """By reason."""
    ended: int
    killed: int
    """Of those that ended, by their time limit."""
    lost: int
    """With a node that broke, and not requeued."""
    never: int
    """Did not start: they wait for a job that was refused or lost."""
    moved: int
    """Ran in another partition than they were submitted to."""
    not_judged: int
    """The policy was asked and nobody knows the truth elsewhere: they stayed."""
    requeued: int
    """Times that a job began again."""
    policy_failed: int = 0
    """The policy was asked and raised an error: they stayed, as in production."""
    killed_memory: int = 0
    """Of those that ended and were not killed by their limit, by needing more memory than given."""

    @property
    def adds_up(self) -> bool:
        """Every job is in exactly one place."""
        here = self.read == self.replayed + sum(self.refused.values())
        return here and self.replayed == self.ended + self.lost + self.never


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
    """In all."""
    gpus: Ints
    memory_bytes: Ints
    """In all."""
    limit_s: Floats
    """Infinite: the job is never killed."""
    planned_s: Floats
    killed: Flags
    killed_memory: Flags
    moved: Flags
    not_judged: Flags
    requeues: Ints
    refused: Ints
    """Place in ``options.REASONS``; 0: not refused."""
    counts: Counts
    units: tuple[Ints, ...] = field(default=())
    """[jobs] nodes that each job ran on; empty: pools."""
    recuts: tuple[Recut, ...] = ()
    """GPUs that were cut anew, in order of time."""

    @property
    def ran(self) -> Flags:
        """[jobs] that ended."""
        return np.isfinite(self.start_s) & np.isfinite(self.end_s)

    @property
    def wait_s(self) -> Floats:
        """[jobs] from being eligible to the start."""
        return self.start_s - self.eligible_s
