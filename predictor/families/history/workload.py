"""The workload document of a program that is known from past jobs only, without a pilot run."""

from __future__ import annotations

import statistics

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Name, Positive, RunsOn
from berth.predictor.core.gpu_use import GpuUse
from berth.predictor.core.workload import WHOLE_JOB, Workload, WorkloadKind, digest_of

HISTORY_WORKLOAD_SCHEMA = "berth.history-workload/1"


class PastRun(Document):
    """One finished job of the program."""

    platform: Name
    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)
    runtime_s: Positive
    peak_host_bytes: Positive | None = None
    """Peak memory of all nodes together; None: not recorded."""
    granted_host_bytes: Positive | None = None
    """Host memory allocated to the job, on all nodes together; None: not recorded."""
    peak_gpu_bytes: Positive | None = None
    """Peak memory of all GPUs together; None: not recorded, or the job had no GPU."""
    gpu_utilisation: float | None = Field(default=None, ge=0, le=1)
    """Share of the time with a kernel on the job's GPUs; None: not recorded."""
    gpu_memory_utilisation: float | None = Field(default=None, ge=0, le=1)
    """Share of the time with accesses to the memory of the job's GPUs; None: not recorded."""
    ended_well: bool = True
    """False: the job may have run out of memory, so its allocated memory may be too small."""
    job_id: str = Field(default="", max_length=128)
    ended_s: float | None = Field(default=None, ge=0)
    """End of the job, Unix time in seconds."""


class PredictedRun(Document):
    """The predicted time of the next job with given cores or GPUs on a platform where the program
    ran."""

    platform: Name
    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)
    low_s: Positive
    mid_s: Positive
    high_s: Positive
    """90 % of jobs take from ``low_s`` to ``high_s`` seconds."""
    accuracy: float = Field(ge=0, le=1)
    """Expected min(predicted, real) / max(predicted, real)."""
    trusted: bool = True
    """False: the prediction is among the least accurate and is not acted on."""

    @model_validator(mode="after")
    def _ordered(self) -> PredictedRun:
        if not self.low_s <= self.mid_s <= self.high_s:
            raise ValueError("low_s, mid_s and high_s are not in order")
        return self


class KindRatio(Document):
    """How many times longer the program runs on a platform than on another, with the same cores or
    GPUs."""

    platform: Name
    than: Name
    """The platform that ``platform`` is compared with."""
    low: Positive
    mid: Positive
    high: Positive
    """The 90 % interval of the ratio."""
    programs: int = Field(ge=0)
    """Number of programs whose runs on both platforms show it."""
    kernels: int = Field(default=0, ge=0)
    """Number of benchmark kernels that ran on both platforms."""
    is_own: bool = False
    """Whether this program is among them."""
    usual: Positive | None = None
    """The ratio of programs in general; None: not known."""

    @model_validator(mode="after")
    def _ordered(self) -> KindRatio:
        if not self.low <= self.mid <= self.high:
            raise ValueError("low, mid and high are not in order")
        return self


class HistoryWorkload(Document):
    """A program with its finished jobs by platform."""

    schema_: str = Field(default=HISTORY_WORKLOAD_SCHEMA, alias="schema")
    name: Name
    runs: tuple[PastRun, ...] = Field(max_length=10_000)
    """Finished jobs; empty for a program of which nothing but ``predicted`` is known."""
    runs_on: RunsOn = RunsOn()
    predicted: tuple[PredictedRun, ...] | None = Field(default=None, max_length=1_000)
    """Run times predicted from all past jobs of the user; None: only ``runs`` are known."""
    ratios: tuple[KindRatio, ...] = Field(default=(), max_length=1_000)
    """Ratios of other platforms to those whose times are known best, one of each set of platforms
    that run the same executables; those of the one with most runs first."""
    fails_on: dict[Name, str] = Field(default_factory=dict, max_length=1_000)
    """Platforms where the program's jobs fail, while they complete elsewhere, each with a sentence
    that says so."""

    @model_validator(mode="after")
    def _is_known(self) -> HistoryWorkload:
        if not self.runs and not self.predicted:
            raise ValueError("it has neither runs nor predicted times")
        if len({ratio.platform for ratio in self.ratios}) < len(self.ratios):
            raise ValueError("it has two ratios of one platform")
        return self

    def gpu_use(self, platform: str) -> GpuUse | None:
        """Return how the runs on one GPU of this platform used it; None: not recorded."""
        known = [
            run
            for run in self.runs
            if run.platform == platform and run.gpus == 1 and run.gpu_utilisation is not None
        ]
        if not known:
            return None
        shares = [run.gpu_utilisation or 0.0 for run in known]
        of_memory = [
            run.gpu_memory_utilisation for run in known if run.gpu_memory_utilisation is not None
        ]
        return GpuUse(
            statistics.median(shares),
            max(shares),
            statistics.median(of_memory) if of_memory else None,
            len(known),
        )


def describe(document: HistoryWorkload) -> Workload:
    """Return the workload of a history document; its predictions are for whole jobs."""
    return Workload(
        "history", document.name, digest_of(document), document.runs_on, WHOLE_JOB, document
    )


KIND = WorkloadKind("history", HistoryWorkload, describe)
