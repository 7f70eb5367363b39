"""Fitted models of the memory that a framework needs beyond the tensors counted from a graph.

``lab.footprint`` writes ``runtimes.json``. Each memory model states the measurements that it was
fitted to and the cases that they do not cover.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from berth.pilot.documents import Document, read_json
from berth.pilot.profile import NonNegative
from berth.predictor.core.prediction import Interval

RUNTIMES = Path(__file__).with_name("runtimes.json")
RUNTIMES_SCHEMA = "berth.footprint-runtimes/1"


class Span(Document):
    """An interval as JSON files store it, with low <= mid <= high."""

    low: NonNegative
    mid: NonNegative
    high: NonNegative

    @property
    def interval(self) -> Interval:
        """Return the interval as the type ``Interval``, for calculations."""
        return Interval(self.low, self.mid, self.high)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.mid <= self.high:
            raise ValueError("low <= mid <= high is needed")
        return self


class DeviceMemory(Document):
    """The device memory of a framework in bytes: ``context_bytes + share * allocated``.

    ``allocated`` (``footprint.Need.allocated``) is counted from the model's graph;
    ``context_bytes`` and ``share`` are fitted, with 95 % intervals.
    """

    kind: Literal["device"] = "device"
    context_bytes: Span
    """Bytes of the CUDA context, loaded kernels and libraries' workspaces."""
    share: Span
    """Factor on the counted bytes."""


class HostMemoryModel(Document):
    """The host memory of a CPU process in bytes: a fitted linear model of counts of the graph.

    The fitted coefficients are bytes per weight byte, convolution, matrix product and activation
    byte, beside ``base_bytes``; ``share`` is the interval as a factor on the result.
    """

    kind: Literal["host"] = "host"
    base_bytes: NonNegative
    a_weight_byte: NonNegative
    a_convolution: NonNegative
    a_product: NonNegative
    an_activation_byte: NonNegative
    share: Span


class FrameworkMemory(Document):
    """A framework's memory model for one task, with the source of the model's measurements."""

    memory: DeviceMemory | HostMemoryModel = Field(discriminator="kind")
    framework: str
    source: str
    labels: int = Field(ge=1)
    models: int = Field(ge=1)
    limits: str
    """Cases that the measurements do not cover, in words."""


class RuntimesFile(Document):
    """The file ``runtimes.json``: the fitted memory models by name."""

    schema_: str = Field(default=RUNTIMES_SCHEMA, alias="schema")
    runtimes: dict[str, FrameworkMemory]


class RuntimeName(StrEnum):
    """The names of the memory models: GPU or CPU, forward pass or training."""

    GPU_FORWARD = "gpu-forward"
    GPU_TRAINING = "gpu-training"
    CPU_FORWARD = "cpu-forward"
    CPU_TRAINING = "cpu-training"


@cache
def runtimes() -> dict[str, FrameworkMemory]:
    """Return the shipped memory models by name. Raises DocumentError for an invalid file."""
    return read_json(RUNTIMES, RuntimesFile).runtimes
