"""The document of a workload measured on a whole GPU (``berth.slice-workload/1``).

Slow-downs on slices are predicted from its measurements. One step time gives the widest intervals;
utilisation counters, or times over several batch sizes and numbers of processes, give narrower
ones; a run on one slice gives the narrowest.
"""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Name, RunsOn, Target
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.prediction import Interval
from berth.predictor.core.workload import WHOLE_JOB, Amount, Workload, WorkloadKind, digest_of

WORKLOAD_SCHEMA = "berth.slice-workload/1"

Positive = Annotated[float, Field(gt=0, lt=1e15)]
"""A number greater than 0."""
Utilization = Annotated[float, Field(gt=0, le=1)]
"""A utilisation as a fraction, greater than 0 and at most 1."""
RESERVED_LEAST = 0.4
"""Least memory need, as a share of the bytes that a caching allocator reserved on the whole GPU.

Programs have run in this share of the reserved memory.
"""


class Timed(Document):
    """A measured time of a workload with ``batch`` items in progress in each of ``processes``
    processes."""

    batch: Positive = 1.0
    processes: int = Field(default=1, ge=1, le=1024)
    step_s: Positive | None = None
    """Seconds per batch in one process (for training: per step)."""
    throughput_per_s: Positive | None = None
    """Items per second in one process; give either this or ``step_s``."""

    @property
    def seconds(self) -> float:
        """Return the seconds per batch in one process."""
        if self.step_s is not None:
            return self.step_s
        if self.throughput_per_s is not None:
            return self.batch / self.throughput_per_s
        raise AssertionError("validated: one of the two is given")

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if (self.step_s is None) == (self.throughput_per_s is None):
            raise ValueError("give either step_s or throughput_per_s")
        return self


class WholeRun(Timed):
    """A measurement of a workload on the whole GPU, with power and utilisation during the run."""

    mean_step_s: Positive | None = None
    """Mean step time in seconds, if ``step_s`` is the median; their ratio gives
    ``unsteadiness``."""
    power_w: Positive | None = None
    """Mean power of the GPU in watts."""
    sm_utilization: Utilization | None = None
    """Fraction of time with a kernel running (NVML's ``utilization.gpu`` / 100)."""
    memory_utilization: Utilization | None = None
    """Fraction of time with memory accesses (NVML's ``utilization.memory`` / 100)."""

    @property
    def unsteadiness(self) -> float:
        """Return ``|log(mean / median)|`` of the step time; 0 if the mean is unknown."""
        return 0.0 if self.mean_step_s is None else abs(math.log(self.mean_step_s / self.seconds))


class SliceProbe(Timed):
    """A measurement of a workload on one slice of the GPU model that it was measured on."""

    profile: str = Field(min_length=1, max_length=64)
    """Name of the MIG profile, for example ``2g.10gb``."""


class MemoryNeed(Document):
    """GPU memory that the workload needs, in bytes: an interval, or an upper bound."""

    low_bytes: Positive | None = None
    mid_bytes: Positive | None = None
    high_bytes: Positive | None = None
    reserved_bytes: Positive | None = None
    """Bytes that a caching allocator reserved on the whole GPU (``nvidia-smi``): an upper bound."""

    @property
    def interval(self) -> Interval:
        """Return the memory need as an interval in bytes.

        A slice is certain to be large enough only if its memory reaches the upper end.
        """
        if self.reserved_bytes is not None:
            most = self.reserved_bytes
            return Interval(RESERVED_LEAST * most, most, most)
        low, mid, high = self.low_bytes, self.mid_bytes, self.high_bytes
        if low is None or mid is None or high is None:
            raise AssertionError("validated: all three are given")
        return Interval(low, mid, high)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        """Raise ValueError unless either ``reserved_bytes`` or an ordered interval is given."""
        three = (self.low_bytes, self.mid_bytes, self.high_bytes)
        if self.reserved_bytes is not None:
            if any(v is not None for v in three):
                raise ValueError("give either reserved_bytes or low_, mid_ and high_bytes")
            return self
        if any(v is None for v in three):
            raise ValueError("give low_bytes, mid_bytes and high_bytes, or reserved_bytes")
        if not (self.low_bytes or 0) <= (self.mid_bytes or 0) <= (self.high_bytes or 0):
            raise ValueError("low_bytes <= mid_bytes <= high_bytes is needed")
        return self


class SliceWorkload(Document):
    """A workload measured on a whole GPU, and the batch size and processes that it will run
    with."""

    schema_: str = Field(default=WORKLOAD_SCHEMA, alias="schema")
    name: Name
    gpu: str = Field(min_length=1, max_length=128)
    """Model of the whole GPU that ``points`` were measured on (``berth mig show`` lists the
    names)."""
    points: tuple[WholeRun, ...] = Field(min_length=1, max_length=10_000)
    batch: Positive | None = None
    """Batch size to predict; may be omitted if all points have the same batch size."""
    processes: int = Field(default=1, ge=1, le=1024)
    """Number of processes to predict."""
    memory: MemoryNeed | None = None
    """None: unknown; then only the whole GPU is certain to be large enough."""
    probes: tuple[SliceProbe, ...] = Field(default=(), max_length=100)
    """Measurements on slices of the same GPU model."""
    idle_power_w: Positive | None = None
    """Power of the idle whole GPU in watts; with a point's ``power_w``, energy is estimated."""
    runtime_s: Positive | None = None
    """Seconds of a whole job on the whole GPU; required if jobs are placed by this document."""
    architecture: Name = "x86_64"
    """Machine architecture (``uname -m``) that the program is built for."""
    instruction_sets: tuple[Name, ...] = Field(default=(), max_length=64)
    """CPU instruction sets that the program needs, for example ``avx2``."""

    @property
    def target_batch(self) -> float:
        """Return the batch size that predictions are made for."""
        return self.points[0].batch if self.batch is None else self.batch

    @property
    def target(self) -> WholeRun | None:
        """Return the whole-GPU measurement at the batch size and processes to predict; None: not
        measured."""
        for point in self.points:
            if point.batch == self.target_batch and point.processes == self.processes:
                return point
        return None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.batch is None and len({p.batch for p in self.points}) > 1:
            raise ValueError("points of several batches need the key batch: which one to place")
        seen = [(p.batch, p.processes) for p in self.points]
        if len(set(seen)) != len(seen):
            raise ValueError("two points have the same batch and processes")
        return self


def describe(document: SliceWorkload) -> Workload:
    """Return a slice workload's document as a Workload: a whole job if it has a run time, else one
    step."""
    runs_on = RunsOn(
        targets=(Target.CUDA,),
        architecture=document.architecture,
        instruction_sets=document.instruction_sets,
        gpus=1,
    )
    amount = Amount(unit=WorkUnit.STEP) if document.runtime_s is None else WHOLE_JOB
    return Workload("slices", document.name, digest_of(document), runs_on, amount, document)


KIND = WorkloadKind("slices", SliceWorkload, describe)
