"""What the measuring child is asked for, and how it says what came of it: JSON both ways."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from berth.pilot.dl.document import Machine, Outcome, Protocol, Setting
from berth.pilot.documents import Document
from berth.pilot.profile import Measurement


class Source(StrEnum):
    """What kind of model it is."""

    ONNX = "onnx"
    FACTORY = "factory"
    """``package.module:function`` that gives a ``torch.nn.Module``."""


class MeasureOrder(Document):
    """One measurement."""

    source: Source
    model: str
    """Path of the file, or the factory."""
    setting: Setting
    protocol: Protocol = Protocol()
    input_shape: tuple[int, ...] | None = None
    """Of a factory's model, without the batch."""
    memory_bytes: int = Field(ge=2**20)
    """What the child may take, weights included; on a GPU, of host memory for weights."""
    time_limit_s: float = Field(default=300.0, gt=0)


class Answer(Document):
    """What the child says at its end; times in seconds."""

    outcome: Outcome
    reason: str | None = None
    seconds: tuple[float, ...] = ()
    processor_s: tuple[float, ...] = ()
    measurements: dict[str, Measurement] = Field(default_factory=dict)
    machine: Machine | None = None
    random_weights: bool = False


def as_line(document: Document) -> bytes:
    """One line of JSON."""
    return document.model_dump_json().encode() + b"\n"
