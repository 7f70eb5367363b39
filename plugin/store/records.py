"""What the store holds, as frozen values. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """A profile document (JSON text) under its name."""

    name: str
    digest: str
    document: str
    owner: str
    created_s: float


@dataclass(frozen=True, slots=True)
class ForecastRecord:
    """A forecast (JSON text) of one profile by one bundle."""

    profile: str
    bundle: str
    document: str
    created_s: float


@dataclass(frozen=True, slots=True)
class FingerprintRecord:
    """A script's digest and the profile that stands for it."""

    digest: str
    profile: str
    size: float | None
    created_s: float


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
    profile: str | None
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
    """What became of a job, from the scheduler's accounting. None: the scheduler did not say."""

    cluster: str
    job_id: str
    user: str
    state: str
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
    energy_j: float | None = None
