"""The rows of the store as frozen values. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from berth.pilot.run import Run


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload's document (JSON text) under the workload's name."""

    name: str
    kind: str
    """``program``, ``model-graph`` ...; see ``predictor.core.workload``."""
    digest: str
    document: str
    owner: str
    """The user who may replace and remove the workload, besides admins; empty: admins only."""
    created_s: float
    share_asked_s: float | None = None
    """Unix time at which the owner requested that the workload serve all users; None: not
    requested.
    """


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """The forecast (JSON text) of one workload by one set of model bundles."""

    workload: str
    """The workload's name."""
    bundle: str
    document: str
    created_s: float


@dataclass(frozen=True, slots=True)
class FingerprintRecord:
    """The digest of a job script, and the workload that jobs with that script run."""

    digest: str
    workload: str
    size: float | None
    created_s: float
    owner: str = ""
    """The user for whose jobs the digest counts; empty: all users' jobs."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One answer of the daemon to a submission. ``request``, ``edits`` and ``ranked`` are JSON
    text.
    """

    id: str
    time_s: float
    host: str
    scheduler: str
    user: str
    account: str | None
    queue: str | None
    workload: str | None
    mode: str
    action: str
    code: str
    reason: str
    chosen: str | None
    bundle: str | None
    policy: str | None
    inputs_digest: str
    latency_us: int
    request: str = "{}"
    edits: str = "{}"
    ground: str | None = None
    """What the choice is based on (``policies.codes.Ground``); None: none was made, or not known.
    """
    arm: str | None = None
    """``changed``, or what a control job got: ``written``, ``list``; None: no arm was drawn."""
    control: str | None = None
    """``policy.control`` as it was in force where an arm was drawn."""
    share: float | None = None
    """``policy.control_share`` as it was in force where an arm was drawn."""
    version: str | None = None
    """The Berth that decided; None: one that did not record it."""
    ranked: str = "[]"


@dataclass(frozen=True, slots=True)
class PlacedRun(Run):
    """A run of a job that Berth decided on, with the forecast for the place where it ran.

    None: nothing was predicted.
    """

    workload: str | None = None
    bundle: str | None = None
    candidate: str | None = None
    """The candidate (on ``platform``) where the job ran, one of those that the decision
    compared.
    """
    platform: str | None = None
    predicted_low_s: float | None = None
    """The prediction for the candidate where the job ran: ``predicted_s`` with its 90 %
    interval.
    """
    predicted_s: float | None = None
    predicted_high_s: float | None = None
    use: str | None = None
    """How learning uses the run: ``used``; ``censored`` (killed by its time limit: a lower bound);
    or why it is left out. None: learning has not looked at it. The values below are learning's,
    too.
    """
    seen_end_s: float | None = None
    """The end and the state of the run when learning looked at it. A run that ended otherwise since
    then is looked at again.
    """
    seen_state: str | None = None
    workload_digest: str | None = None
    """Digest of the workload's document at that time; runs of another document do not count."""
    ranked_cores: int | None = None
    """Cores, and below GPUs, as the decision's ranking counts them: those of the prediction."""
    ranked_gpus: int | None = None
    size: float | None = None
    """Problem size that the job named."""
    score: float | None = None
    """Standard deviations between the log of the run's time and the value expected from all earlier
    runs.
    """


def is_timed(elapsed_s: float) -> bool:
    """Return whether an elapsed time in seconds is precise enough to tell how long a job ran.

    Slurm subtracts two times that are cut to whole seconds: 0 means any time below 1 s, and 1 any
    time below 2 s.
    """
    return elapsed_s not in (0, 1)


class RunSums(NamedTuple):
    """The columns of a ``PlacedRun`` needed for sums over many jobs; reads ten times faster."""

    user: str
    state: str
    decision: str | None
    elapsed_s: float
    workload: str | None
    bundle: str | None
    candidate: str | None
    platform: str | None
    predicted_low_s: float | None
    predicted_s: float | None
    predicted_high_s: float | None
    submit_s: float | None = None
    end_s: float | None = None
    nodes: int | None = None
    cores: int | None = None
    gpus: int | None = None
    energy_j: float | None = None


class DecisionInputs(NamedTuple):
    """The columns of a ``DecisionRecord`` from which the evidence of its job is made."""

    time_s: float
    request: str
    ranked: str


CHANGED = "changed"
"""The arm of jobs that get what Berth chose; the names of others are those of ``Control``."""


class DecisionArm(NamedTuple):
    """The columns of a ``DecisionRecord`` by which its jobs are compared with control jobs."""

    time_s: float
    action: str
    code: str
    ground: str | None = None
    arm: str | None = None
    control: str | None = None
    share: float | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the site as the scheduler last described it; the texts are JSON."""

    cluster: str
    name: str
    queues: str
    """List of the queues in which the node is."""
    features: str
    """List of the node's features."""
    gpus: str
    """Number of the node's GPUs by type."""
    seen_s: float


@dataclass(frozen=True, slots=True)
class MemoryNeedRecord:
    """The memory that similar past jobs needed, by a key that a new job can be matched with."""

    digest: str
    """The key that the past jobs have in common (``plugin.history.matching``)."""
    user: str
    peak_bytes: int
    """The largest host memory per node of all these past jobs."""
    runs: int
    """The number of these jobs that recorded a peak."""
    polled: int
    """1: the peaks were sampled, so short peaks are missed; 0: they were not."""
    enough_bytes: int | None
    """Memory that would be enough for these jobs; None: one of them ran out of memory."""
    updated_s: float


@dataclass(frozen=True, slots=True)
class LearntRecord:
    """A forecast (JSON text) updated by finished jobs."""

    workload: str
    user: str
    """The user for whose jobs the forecast is made; empty: all users' jobs."""
    document: str
    inputs: str
    """Digest of the forecast's inputs; the forecast is recomputed only when they change."""
    runs: int
    """The number of finished jobs that changed the forecast."""
    created_s: float
