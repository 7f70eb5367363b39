"""What a framework needs beside the tensors that can be counted: a learnt memory model each.

``runtimes.json`` is written by ``lab.footprint``; every memory model says what it was
learnt from and what it was not.
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
    """An interval in a file."""

    low: NonNegative
    mid: NonNegative
    high: NonNegative

    @property
    def interval(self) -> Interval:
        """Return the interval for calculations."""
        return Interval(self.low, self.mid, self.high)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.mid <= self.high:
            raise ValueError("low <= mid <= high is needed")
        return self


class DeviceMemory(Document):
    """Device memory: ``context + share x counted``, 95 % intervals of both."""

    kind: Literal["device"] = "device"
    context_bytes: Span
    """CUDA context, loaded kernels, libraries' workspaces."""
    share: Span
    """Factor on what is counted and goes through the allocator."""


class HostMemory(Document):
    """A CPU process: a sum of what is counted, each with its learnt weight, times ``share``."""

    kind: Literal["host"] = "host"
    base_bytes: NonNegative
    a_weight_byte: NonNegative
    a_convolution: NonNegative
    a_product: NonNegative
    an_activation_byte: NonNegative
    share: Span


class Runtime(Document):
    """A framework's way of running one task, and where its memory model comes from."""

    memory: DeviceMemory | HostMemory = Field(discriminator="kind")
    framework: str
    source: str
    labels: int = Field(ge=1)
    models: int = Field(ge=1)
    limits: str
    """Cases that the labels do not cover, in words."""


class RuntimesFile(Document):
    """The document ``runtimes.json``."""

    schema_: str = Field(default=RUNTIMES_SCHEMA, alias="schema")
    runtimes: dict[str, Runtime]


class RuntimeName(StrEnum):
    """The keys of ``runtimes.json``."""

    GPU_FORWARD = "gpu-forward"
    GPU_TRAINING = "gpu-training"
    CPU_FORWARD = "cpu-forward"
    CPU_TRAINING = "cpu-training"


@cache
def runtimes() -> dict[str, Runtime]:
    """Read the shipped memory models by name. Raises DocumentError where the file is broken."""
    return read_json(RUNTIMES, RuntimesFile).runtimes
