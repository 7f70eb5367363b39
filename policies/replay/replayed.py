"""The result of a replay: when and where each job ran, and what happened to jobs that did not
run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from berth.policies.replay.cluster import Cluster
from berth.policies.replay.settings import Settings
from berth.policies.replay.trace import Flags, Floats, Ints, Trace


@dataclass(frozen=True)
class ReplayCounts:
    """Numbers of jobs by their outcome in a replay.

    ``read`` is ``replayed`` + ``refused``; ``replayed`` is ``ended`` + ``never``.
    """

    read: int
    replayed: int
    """Jobs submitted to the simulated scheduler."""
    refused: dict[str, int]
    """Jobs that could not be submitted, by reason."""
    ended: int
    killed: int
    """Jobs that were killed at their time limit."""
    never: int
    """Jobs that never started, such as those that depend on a refused job."""
    moved: int
    """Jobs that ran in a partition other than the one they were submitted to."""
    not_judged: int
    """Jobs that stayed because their true run time at the policy's choice is unknown."""
    policy_failed: int = 0
    """Jobs that stayed in their partition, as in production, because the policy raised an error."""
    killed_memory: int = 0
    """Jobs that ended within their time limit but needed more memory than they had requested."""

    @property
    def adds_up(self) -> bool:
        """Return whether every job is counted in exactly one outcome."""
        all_read = self.read == self.replayed + sum(self.refused.values())
        return all_read and self.replayed == self.ended + self.never


@dataclass(frozen=True)
class Replayed:
    """The replay's result per job, in the trace's order; NaN and -1 for jobs that did not run."""

    trace: Trace
    cluster: Cluster
    settings: Settings
    start_s: Floats
    end_s: Floats
    eligible_s: Floats
    """When the job could start but for the queue: after its dependency and its array's limit."""
    partition: Ints
    nodes: Ints
    cores: Ints
    """Cores, summed over the job's nodes."""
    gpus: Ints
    memory_bytes: Ints
    """Memory, summed over the job's nodes."""
    limit_s: Floats
    """Time limit in seconds; infinite: the job is never killed."""
    planned_s: Floats
    killed: Flags
    killed_memory: Flags
    moved: Flags
    not_judged: Flags
    refused: Ints
    """Index into ``inputs.REASONS``; 0: not refused."""
    counts: ReplayCounts
    units: tuple[Ints, ...] = field(default=())
    """[jobs] the nodes that each job ran on; empty in pools."""

    @property
    def ran(self) -> Flags:
        """Return [jobs] whether the job started and ended."""
        return np.isfinite(self.start_s) & np.isfinite(self.end_s)

    @property
    def wait_s(self) -> Floats:
        """Return [jobs] the seconds from when the job became eligible to its start."""
        return self.start_s - self.eligible_s
