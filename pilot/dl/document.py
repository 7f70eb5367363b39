"""``berth.model-run/1``: one model, one batch, one precision, one device, measured once.

Documented for people in ``docs/model-runs.md``. What could not be measured is missing, with the
reason; a model that ran out of memory is a result (its ``outcome``), not an error. The measuring
child takes a :class:`MeasureOrder` and gives an :class:`Answer`, each as one line of JSON.
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


class Precision(StrEnum):
    """Numbers that the model computes in; ``docs/model-runs.md`` says how frameworks do it."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"


class Device(StrEnum):
    """The device that it runs on."""

    CPU = "cpu"
    CUDA = "cuda"


class Outcome(StrEnum):
    """The ways in which a measurement ends; all of them are labels."""

    OK = "ok"
    OUT_OF_MEMORY = "out-of-memory"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    REFUSED = "refused"
    """The framework cannot run this model, or not so; ``reason`` says why."""


class ModelFacts(Document):
    """The model that was run."""

    name: Name
    sha256: str
    """Digest of the file; of the name where the model is a Python factory."""
    graph: str | None = None
    """``ModelGraph.digest`` at this batch, where Berth could read the graph."""
    parameters: NonNegative | None = None
    macs: NonNegative | None = None
    flops: NonNegative | None = None
    moved_bytes: NonNegative | None = None
    peak_activation_bytes: NonNegative | None = None
    inputs: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Inputs such as ``x: FLOAT [8, 3, 224, 224]``."""
    random_weights: bool = False
    """True where weights were made up because the file has none."""


class Setting(Document):
    """The settings of a run: together with the model's digest they tell two runs apart."""

    task: Task = Task.INFERENCE
    framework: str = Field(default="onnxruntime", pattern="^(onnxruntime|torch)$")
    device: Device = Device.CPU
    batch: int = Field(ge=1, le=2**20)
    precision: Precision = Precision.FP32
    threads: int = Field(default=1, ge=1, le=4096)
    sizes: dict[str, int] = Field(default_factory=dict, max_length=100)
    """Other open dimensions of the model, by name."""
    optimizer: str | None = None
    """The optimiser of a training step."""
    sm_percentage: int | None = Field(default=None, ge=1, le=100)
    """Share of the GPU's multiprocessors that the run was held to (CUDA MPS)."""


class Protocol(Document):
    """The thesis's protocol (section 4.4.1: 5 warm-up runs, then the mean of 30; here all repeats
    are kept, and their median is the figure)."""

    warmup: int = Field(default=5, ge=0, le=10_000)
    repeats: int = Field(default=30, ge=1, le=10_000)
    cool_down_s: NonNegative = 0.0
    """Idle before the warm-up, and again before energy is measured."""
    energy_s: NonNegative = 0.0
    """Shortest window of back-to-back runs that energy is measured over; 0: not measured."""
    repeats_s: Positive = 20.0
    """No new repeat is begun after this; at least 3 are made."""


class Machine(Document):
    """The machine that it ran on, as the framework saw it."""

    device: str
    """Processor or GPU by its maker's name."""
    memory_bytes: Positive
    multiprocessors: int | None = None
    mig: str | None = None
    """A slice's profile, or ``unknown``; None: a whole device."""
    framework_version: str
    cuda: str | None = None
    driver: str | None = None


class Disturbance(Document):
    """The load that others put on the machine meanwhile."""

    load_before: NonNegative
    """Load average of the last minute."""
    load_after: NonNegative
    cores: int = Field(ge=1)
    disturbed_share: float = Field(ge=0, le=1)
    """Share of repeats that took over 5 % more wall-clock than processor time; one thread only."""


class ModelRun(Document):
    """One model, one batch, one precision, one device, measured once (``berth.model-run/1``)."""

    schema_: str = Field(default=MODEL_RUN_SCHEMA, alias="schema")
    platform: Name
    model: ModelFacts
    setting: Setting
    protocol: Protocol
    outcome: Outcome
    reason: str | None = None
    latency: Runtime | None = None
    """Time of one run at the whole batch: wall clock, or CUDA events on a GPU."""
    processor_time: Runtime | None = None
    """Time that the process spent on all its cores for one run. With one thread on a busy machine,
    what the latency would be on an idle one."""
    measurements: dict[str, Measurement] = Field(default_factory=dict, max_length=100)
    """Memory, power and energy: ``docs/model-runs.md`` has the names."""
    machine: Machine | None = None
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
        """Return a key that is the same for two runs that measured the same thing."""
        return run_key(self.model.sha256, self.setting)


def run_key(sha256: str, setting: Setting) -> str:
    """Return a key of a model and a setting that is the same in every process."""
    return json.dumps([sha256, setting.model_dump(mode="json")], sort_keys=True)


class Source(StrEnum):
    """The kinds of model that can be measured."""

    ONNX = "onnx"
    FACTORY = "factory"
    """``package.module:function`` that gives a ``torch.nn.Module``."""


class MeasureOrder(Document):
    """One measurement, as the measuring child is asked for it."""

    source: Source
    model: str
    """Path of the file, or the factory."""
    setting: Setting
    protocol: Protocol = Protocol()
    input_shape: tuple[int, ...] | None = None
    """Shape of one input of a factory's model, without the batch."""
    memory_bytes: int = Field(ge=2**20)
    """Memory that the child may take, weights included; on a GPU, host memory for weights."""
    time_limit_s: float = Field(default=300.0, gt=0)


class Answer(Document):
    """The measuring child's answer at its end; times in seconds."""

    outcome: Outcome
    reason: str | None = None
    seconds: tuple[float, ...] = ()
    processor_s: tuple[float, ...] = ()
    measurements: dict[str, Measurement] = Field(default_factory=dict)
    machine: Machine | None = None
    random_weights: bool = False


def as_line(document: Document) -> bytes:
    """Return the document as one line of JSON."""
    return document.model_dump_json().encode() + b"\n"
