"""The workload of a deep-learning model: its graph, what is done with it, and how much of it."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.profile import Name, RunsOn, Target
from berth.predictor.core.forecast import Unit
from berth.predictor.core.workload import Amount, Kind, Workload, digest_of

MODEL_WORKLOAD_SCHEMA = "berth.model-workload/1"
_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]+")
ANY_DEVICE = RunsOn(targets=(Target.CPU, Target.CUDA))


class Mode(StrEnum):
    """What is done with a model."""

    INFERENCE = "inference"
    TRAINING = "training"
    """Forward, backward and the optimiser."""


class ModelWorkload(Document):
    """A model graph at a batch, without its weights."""

    schema_: str = Field(default=MODEL_WORKLOAD_SCHEMA, alias="schema")
    name: Name
    mode: Mode = Mode.INFERENCE
    precision: str | None = Field(default=None, pattern="^(fp32|tf32|fp16|bf16|fp8)$")
    """None: as the file has it (inference), or mixed on GPUs and fp32 on CPUs (training)."""
    batch: int = Field(ge=1)
    file: str = Field(default="", max_length=4096)
    """Name of the model's file, for people."""
    amount: Amount = Amount(unit=Unit.STEP)
    """A step is one batch."""
    runs_on: RunsOn = ANY_DEVICE
    graph: tuple[str, ...] = Field(min_length=1, max_length=256)
    """See ``predictor.graphs.stored``."""


def check_trained_in(mode: str, precision: str | None) -> None:
    """Raise UsageError for a precision that training is not predicted in."""
    if mode == Mode.TRAINING and precision == "fp8":
        raise UsageError(
            "training in fp8 is not predicted: nobody measured it",
            hint="--precision fp32, tf32, fp16 or bf16 (the last two: mixed precision)",
        )


def plain_name(path: Path) -> str:
    """Return a workload's name from a file's: ``resnet50.onnx`` gives ``resnet50``."""
    stem = path.parent.name if path.name == "config.json" else path.stem
    return _PLAIN.sub("-", stem).strip("-.+_")[:128] or "model"


def describe(document: ModelWorkload) -> Workload:
    """Return the workload; its predictions are for a step, that is one batch forward (or forward
    and backward)."""
    return Workload(
        "model-graph", document.name, digest_of(document), document.runs_on, document.amount,
        document,
    )  # fmt: skip


KIND = Kind("model-graph", ModelWorkload, describe)
