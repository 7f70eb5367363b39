"""The file that describes a workload on its whole GPU (``berth.slice-workload/1``), as a Workload.

What was measured there decides how well slices can be predicted: one step time is little, times
over batches and processes or the utilisation counters are much, a run on one slice is best.
"""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Name, RunsOn, Target
from berth.predictor.core.forecast import Unit
from berth.predictor.core.prediction import Interval
from berth.predictor.core.workload import WHOLE_JOB, Amount, Kind, Workload, digest_of

WORKLOAD_SCHEMA = "berth.slice-workload/1"

Positive = Annotated[float, Field(gt=0, lt=1e15)]
Utilization = Annotated[float, Field(gt=0, le=1)]
RESERVED_LEAST = 0.4
"""A program that an allocator reserved R for on a whole GPU has run in this part of R."""


class Timed(Document):
    """One measurement: ``batch`` items in flight in each of ``processes`` processes."""

    batch: Positive = 1.0
    processes: int = Field(default=1, ge=1, le=1024)
    step_s: Positive | None = None
    """Seconds a batch in one process (for training: a step)."""
    throughput_per_s: Positive | None = None
    """Items a second in one process; the other way to say ``step_s``."""

    @property
    def seconds(self) -> float:
        """Return seconds a batch in one process."""
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


class Point(Timed):
    """A measurement on the whole GPU, with what its counters showed meanwhile."""

    mean_step_s: Positive | None = None
    """Mean where ``step_s`` is the median: their distance says how unsteady the steps are."""
    power_w: Positive | None = None
    sm_utilization: Utilization | None = None
    """Share of time with a kernel running (NVML's ``utilization.gpu``), of 1."""
    memory_utilization: Utilization | None = None
    """Share of time with the memory busy (NVML's ``utilization.memory``), of 1."""

    @property
    def unsteadiness(self) -> float:
        """Return ``|log(mean / median)|`` of the step time; 0 where the mean is not known."""
        return 0.0 if self.mean_step_s is None else abs(math.log(self.mean_step_s / self.seconds))


class Probe(Timed):
    """A measurement on one slice of the same GPU model."""

    profile: str = Field(min_length=1, max_length=64)


class MemoryNeed(Document):
    """Bytes of device memory: an interval that is said to hold the need, or one upper bound."""

    low_bytes: Positive | None = None
    mid_bytes: Positive | None = None
    high_bytes: Positive | None = None
    reserved_bytes: Positive | None = None
    """Bytes that a caching allocator reserved on the whole GPU (``nvidia-smi``): an upper bound."""

    @property
    def interval(self) -> Interval:
        """Return the interval; for a slice to be certain, its memory must reach ``high``."""
        if self.reserved_bytes is not None:
            most = self.reserved_bytes
            return Interval(RESERVED_LEAST * most, most, most)
        low, mid, high = self.low_bytes, self.mid_bytes, self.high_bytes
        if low is None or mid is None or high is None:
            raise AssertionError("validated: all three are given")
        return Interval(low, mid, high)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
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
    """One workload as it ran on its whole GPU, and the batch it is to be placed with."""

    schema_: str = Field(default=WORKLOAD_SCHEMA, alias="schema")
    name: Name
    gpu: str = Field(min_length=1, max_length=128)
    """Model of the whole GPU that ``points`` were measured on (``berth mig show``)."""
    points: tuple[Point, ...] = Field(min_length=1, max_length=10_000)
    batch: Positive | None = None
    """Batch to be placed; may be left out where all points have the same batch."""
    processes: int = Field(default=1, ge=1, le=1024)
    memory: MemoryNeed | None = None
    """None: nobody knows, and no slice but the whole GPU is certain to be large enough."""
    probes: tuple[Probe, ...] = Field(default=(), max_length=100)
    idle_power_w: Positive | None = None
    power_limit_w: Positive | None = None
    """Power limit of the whole GPU, that ``power_w`` is a part of."""
    runtime_s: Positive | None = None
    """Seconds of a whole job on the whole GPU; needed where jobs are to be placed by this file."""
    architecture: Name = "x86_64"
    """Machine (``uname -m``) that the program is built for."""
    instruction_sets: tuple[Name, ...] = Field(default=(), max_length=64)
    """Instructions of the host's CPU that it needs, for example ``avx2``."""

    @property
    def target_batch(self) -> float:
        """Return the batch to place."""
        return self.points[0].batch if self.batch is None else self.batch

    @property
    def target(self) -> Point | None:
        """Return the point measured at the batch and processes to place, if there is one."""
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
        idle, most = self.idle_power_w, self.power_limit_w
        if idle is not None and most is not None and idle >= most:
            raise ValueError("idle_power_w must be below power_limit_w")
        return self


def describe(document: SliceWorkload) -> Workload:
    """Return the workload: a whole job where the file says how long one takes, else a batch."""
    runs_on = RunsOn(
        targets=(Target.CUDA,),
        architecture=document.architecture,
        instruction_sets=document.instruction_sets,
        gpus=1,
    )
    amount = Amount(unit=Unit.STEP) if document.runtime_s is None else WHOLE_JOB
    return Workload("slices", document.name, digest_of(document), runs_on, amount, document)


KIND = Kind("slices", SliceWorkload, describe)
