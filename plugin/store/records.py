"""What the store holds, as frozen values. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload's document (JSON text) under its name."""

    name: str
    kind: str
    """``program``, ``model-graph`` ...; see ``predictor.core.workload``."""
    digest: str
    document: str
    owner: str
    """Who may replace and remove it besides admins; empty: admins only."""
    created_s: float
    share_asked_s: float | None = None
    """Since when its owner asks that it serve all users; None: no."""


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """A forecast (JSON text) of one workload by one set of bundles."""

    workload: str
    """The workload's name."""
    bundle: str
    document: str
    created_s: float


@dataclass(frozen=True, slots=True)
class FingerprintRecord:
    """A script's digest and the workload that stands for it."""

    digest: str
    workload: str
    size: float | None
    created_s: float
    owner: str = ""
    """The user whose jobs it places; empty: everybody's."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One answer of the daemon. ``request``, ``edits`` and ``ranked`` are JSON text."""

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
    ranked: str = "[]"


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What became of a job, from the scheduler. None: it did not say, or nothing was predicted."""

    cluster: str
    """The site's name."""
    job_id: str
    user: str
    state: str
    """The state as ``plugin.scheduler.Outcome`` names it."""
    decision: str | None = None
    queue: str | None = None
    exit_status: int | None = None
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    nodes: int | None = None
    cores: int | None = None
    gpus: int | None = None
    time_limit_s: float | None = None
    max_rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    """Most memory held on a GPU."""
    energy_j: float | None = None
    elapsed_s: float | None = None
    """Seconds from start to end, without the time it was suspended."""
    workload: str | None = None
    bundle: str | None = None
    candidate: str | None = None
    """The candidate where it ran, on ``platform``: one that the decision had looked at."""
    platform: str | None = None
    predicted_low_s: float | None = None
    """The prediction for the candidate where it ran, with the 90 % interval."""
    predicted_s: float | None = None
    predicted_high_s: float | None = None


def is_timed(elapsed_s: float | None) -> bool:
    """Return whether a time says how long a job ran.

    Slurm counts whole seconds between two moments that it cuts to the second: 0 may be anything
    below one, and 1 anything below two.
    """
    return elapsed_s not in (None, 0, 1)


class EndedJob(NamedTuple):
    """The columns of an ``OutcomeRecord`` that sums over many jobs need: a tenth of its cost."""

    user: str
    state: str
    decision: str | None
    elapsed_s: float | None
    workload: str | None
    bundle: str | None
    candidate: str | None
    platform: str | None
    predicted_low_s: float | None
    predicted_s: float | None
    predicted_high_s: float | None


class DecisionInputs(NamedTuple):
    """The columns of a ``DecisionRecord`` that evidence of its job is made from."""

    time_s: float
    request: str
    ranked: str


class Ranking(NamedTuple):
    """The columns of a ``DecisionRecord`` that its job is compared with."""

    action: str
    chosen: str | None
    ranked: str


@dataclass(frozen=True, slots=True)
class PastJobRecord:
    """A job that ran, from accounting; nothing was decided about it, or nothing is known of that.

    None and empty texts: not recorded.
    """

    cluster: str
    job_id: str
    user: str
    state: str
    """The state as ``plugin.scheduler.Outcome`` names it."""
    submit_s: float
    start_s: float
    end_s: float
    elapsed_s: float
    """Without the time it was suspended."""
    cores: int
    nodes: int = 1
    account: str = ""
    name: str = ""
    script: str = ""
    """Digest of its script's text in its normal form."""
    arguments: str = ""
    """Digest of the arguments that its script was given, or of the command that it is."""
    similar: str = ""
    """The same digest with numbers left out."""
    queue: str = ""
    gpus: int | None = None
    time_limit_s: float | None = None
    request_bytes: int | None = None
    """Memory asked for on each node."""
    peak_bytes: int | None = None
    """Most host memory held on a node."""
    gpu_peak_bytes: int | None = None
    """Most memory held on a GPU."""
    peak_source: str = ""
    """``cgroup``: the kernel's own peak; ``polled``: sampled, short peaks are missed."""


@dataclass(frozen=True, slots=True)
class MemoryNeedRecord:
    """How much memory past jobs needed that a new job may be matched with."""

    digest: str
    """The key that the jobs have in common (``plugin.history.matching``)."""
    user: str
    peak_bytes: int
    """The largest of all that are stored, on a node."""
    runs: int
    """How many runs recorded a peak."""
    polled: int
    """1: peaks were sampled, short ones are missed."""
    enough_bytes: int | None
    """The memory that would be enough; None: one of them ended out of memory."""
    updated_s: float


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """A finished job as it was looked at for learning."""

    cluster: str
    job_id: str
    ended_s: float
    state: str
    use: str
    """``used``; ``censored`` (killed by its time limit: a lower bound); or why it is left out."""
    user: str
    workload: str
    digest: str
    """The workload's digest at that time: runs of another content say nothing of this one."""
    platform: str | None = None
    cores: int | None = None
    gpus: int | None = None
    size: float | None = None
    runtime_s: float | None = None
    memory_bytes: int | None = None
    score: float | None = None
    """Standard deviations between its log time and what was expected from all jobs before it."""
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class LearntRecord:
    """A forecast (JSON text) after finished jobs."""

    workload: str
    user: str
    """The user whose jobs it is for; empty: everybody's."""
    document: str
    inputs: str
    """Digest of what it was made from: made anew only when that changes."""
    runs: int
    """How many runs moved it."""
    created_s: float
