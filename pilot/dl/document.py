"""``berth.model-run/1``: the document of one measurement of a deep-learning model.

``docs/model-runs.md`` describes the document for users. Quantities that could not be measured have
no value and a reason; running out of memory is a result (``outcome``), not an error. The measuring
child reads a :class:`MeasureOrder` and writes an :class:`Answer`, each as one line of JSON.
"""

from __future__ import annotations

import json
from enum import StrEnum

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Measurement, Name, NonNegative, Positive, Provenance, Runtime

MODEL_RUN_SCHEMA = "berth.model-run/1"


class Task(StrEnum):
    """The task that is timed: a forward pass, or a whole training step."""

    INFERENCE = "inference"
    TRAINING = "training"


class ComputePrecision(StrEnum):
    """The number format that the model computes in; see ``docs/model-runs.md`` by framework."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


class ComputeDevice(StrEnum):
    """The device that a model runs on."""

    CPU = "cpu"
    CUDA = "cuda"


class Outcome(StrEnum):
    """How the measurement of a model ended; ``ok`` is the only success."""

    OK = "ok"
    OUT_OF_MEMORY = "out-of-memory"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    REFUSED = "refused"
    """The framework cannot run this model with this setting; ``reason`` says why."""


class ModelFacts(Document):
    """The model that was run: its digest, and operations and bytes of its graph if known."""

    name: Name
    sha256: str
    """SHA-256 of the model's file, or of the factory's name where a Python factory makes it."""
    graph: str | None = None
    """``ModelGraph.digest`` at this batch; None where Berth could not read the graph."""
    parameters: NonNegative | None = None
    macs: NonNegative | None = None
    flops: NonNegative | None = None
    moved_bytes: NonNegative | None = None
    peak_activation_bytes: NonNegative | None = None
    inputs: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Inputs such as ``x: FLOAT [8, 3, 224, 224]``."""
    random_weights: bool = False
    """True where weights were generated at random because the file has none."""


class Setting(Document):
    """The settings of a run; runs with the same model digest and setting are repetitions."""

    task: Task = Task.INFERENCE
    framework: str = Field(default="onnxruntime", pattern="^(onnxruntime|torch)$")
    device: ComputeDevice = ComputeDevice.CPU
    batch: int = Field(ge=1, le=2**20)
    precision: ComputePrecision = ComputePrecision.FP32
    threads: int = Field(default=1, ge=1, le=4096)
    sizes: dict[str, int] = Field(default_factory=dict, max_length=100)
    """Other open dimensions of the model, by name."""
    optimizer: str | None = None
    """The optimiser of a training step."""
    sm_percentage: int | None = Field(default=None, ge=1, le=100)
    """Percentage of the GPU's multiprocessors that CUDA MPS limited the run to."""


class Protocol(Document):
    """The measurement protocol: warm-up runs, repeats, idle times and the energy window.

    The thesis (section 4.4.1) uses 5 warm-up runs and the mean of 30 repeats. Berth stores all
    repeats and reports their median.
    """

    warmup: int = Field(default=5, ge=0, le=10_000)
    repeats: int = Field(default=30, ge=1, le=10_000)
    cool_down_s: NonNegative = 0.0
    """Idle time before the warm-up, and again before energy is measured."""
    energy_s: NonNegative = 0.0
    """Least duration of the back-to-back runs that energy is measured over; 0: no energy."""
    repeats_s: Positive = 20.0
    """No new repeat starts after this time; at least 3 repeats are made."""


class ModelHardware(Document):
    """The machine that the model ran on, as the framework reports it."""

    device: str
    """Product name of the processor or GPU."""
    memory_bytes: Positive
    multiprocessors: int | None = None
    mig: str | None = None
    """Profile of the MIG slice, or ``unknown``; None for a whole device."""
    framework_version: str
    cuda: str | None = None
    driver: str | None = None


class Disturbance(Document):
    """The load of the machine before and after a measurement, and how much it disturbed repeats."""

    load_before: NonNegative
    """One-minute load average before the measurement."""
    load_after: NonNegative
    cores: int = Field(ge=1)
    disturbed_share: float = Field(ge=0, le=1)
    """Share of repeats whose wall-clock time exceeded processor time by over 5 %.

    Only meaningful for one thread.
    """


class ModelRun(Document):
    """One measurement of a model at a batch and precision on a device (``berth.model-run/1``)."""

    schema_: str = Field(default=MODEL_RUN_SCHEMA, alias="schema")
    platform: Name
    model: ModelFacts
    setting: Setting
    protocol: Protocol
    outcome: Outcome
    reason: str | None = None
    latency: Runtime | None = None
    """Time of one run over the whole batch: wall clock, or CUDA events for PyTorch on a GPU."""
    processor_time: Runtime | None = None
    """Processor time of one run, summed over all cores.

    With one thread on a busy machine, it approximates the latency on an idle machine.
    """
    measurements: dict[str, Measurement] = Field(default_factory=dict, max_length=100)
    """Memory, power and energy; ``docs/model-runs.md`` lists the names."""
    machine: ModelHardware | None = None
    disturbance: Disturbance | None = None
    provenance: Provenance

    @model_validator(mode="after")
    def _measured_or_explained(self) -> ModelRun:
        if self.outcome is Outcome.OK and self.latency is None:
            raise ValueError("a run that is ok has a latency")
        if self.outcome is not Outcome.OK and (self.latency is not None or not self.reason):
            raise ValueError("a run that is not ok has a reason and no latency")
        return self

    @property
    def key(self) -> str:
        """Return a key that is equal for two runs with the same model and setting."""
        return run_key(self.model.sha256, self.setting)


def run_key(sha256: str, setting: Setting) -> str:
    """Return a key (JSON text) of a model's SHA-256 and a setting, stable across processes."""
    return json.dumps([sha256, setting.model_dump(mode="json")], sort_keys=True)


class ModelSource(StrEnum):
    """Where a model to measure comes from: an ONNX file or a Python factory."""

    ONNX = "onnx"
    FACTORY = "factory"
    """``package.module:function`` that returns a ``torch.nn.Module``."""


class MeasureOrder(Document):
    """A measurement request: the input of the measuring child process."""

    source: ModelSource
    model: str
    """Path of the ONNX file, or name of the factory."""
    setting: Setting
    protocol: Protocol = Protocol()
    input_shape: tuple[int, ...] | None = None
    """Shape of one input of a factory's model, without the batch."""
    memory_bytes: int = Field(ge=2**20)
    """Memory limit of the child, weights included; on a GPU, host memory limit for weights."""
    time_limit_s: float = Field(default=300.0, gt=0)


class Answer(Document):
    """The result that the measuring child process returns; times are in seconds."""

    outcome: Outcome
    reason: str | None = None
    seconds: tuple[float, ...] = ()
    processor_s: tuple[float, ...] = ()
    measurements: dict[str, Measurement] = Field(default_factory=dict)
    machine: ModelHardware | None = None
    random_weights: bool = False


def as_line(document: Document) -> bytes:
    """Return the document as one line of JSON."""
    return document.model_dump_json().encode() + b"\n"
