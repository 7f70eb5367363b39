"""Define the workload of a deep-learning model: its graph, inference or training, and number of
steps."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from berth.pilot.documents import Document
from berth.pilot.errors import UsageError
from berth.pilot.profile import Name, RunsOn, Target
from berth.predictor.core.forecast import WorkUnit
from berth.predictor.core.workload import Amount, Workload, WorkloadKind, digest_of

MODEL_WORKLOAD_SCHEMA = "berth.model-workload/1"
_PLAIN = re.compile(r"[^A-Za-z0-9_.+-]+")
ANY_DEVICE = RunsOn(targets=(Target.CPU, Target.CUDA))


class RunMode(StrEnum):
    """Whether a model is run (inference) or trained."""

    INFERENCE = "inference"
    TRAINING = "training"
    """Forward pass, backward pass and optimiser step."""


class ModelWorkload(Document):
    """Workload of a model graph at one batch size, without the model's weights."""

    schema_: str = Field(default=MODEL_WORKLOAD_SCHEMA, alias="schema")
    name: Name
    mode: RunMode = RunMode.INFERENCE
    precision: str | None = Field(default=None, pattern="^(fp32|tf32|fp16|bf16|fp8)$")
    """None: the model file's precision (inference), or mixed on GPUs and fp32 on CPUs
    (training)."""
    batch: int = Field(ge=1)
    file: str = Field(default="", max_length=4096)
    """Name of the model's file, as shown to users."""
    amount: Amount = Amount(unit=WorkUnit.STEP)
    """Amount of work of a job; one step is one batch."""
    runs_on: RunsOn = ANY_DEVICE
    graph: tuple[str, ...] = Field(min_length=1, max_length=256)
    """Lines of the stored graph, in the format of ``predictor.graphs.stored``."""


def check_trained_in(mode: str, precision: str | None) -> None:
    """Raise UsageError if the mode is training and the precision is one Berth cannot predict
    (fp8)."""
    if mode == RunMode.TRAINING and precision == "fp8":
        raise UsageError(
            "training in fp8 is not predicted: nobody measured it",
            hint="--precision fp32, tf32, fp16 or bf16 (the last two: mixed precision)",
        )


def plain_name(path: Path) -> str:
    """Return a workload's name from a file name: ``resnet50`` for ``resnet50.onnx``."""
    stem = path.parent.name if path.name == "config.json" else path.stem
    return _PLAIN.sub("-", stem).strip("-.+_")[:128] or "model"


def describe(document: ModelWorkload) -> Workload:
    """Return the workload of a document; one unit of its predictions is a step: one batch forward
    (training: forward and backward)."""
    return Workload(
        "model-graph", document.name, digest_of(document), document.runs_on, document.amount,
        document,
    )  # fmt: skip


KIND = WorkloadKind("model-graph", ModelWorkload, describe)
