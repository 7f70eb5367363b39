"""Platform and Signature: a kind of hardware, and its benchmark results.

One JSON file per platform (``berth.platform/1``). Rates are in SI units per second. A rate named
``core`` is for one CPU core (None for GPUs); a rate named ``total`` is for the whole platform: a
whole node, one GPU, or one MIG slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Name, NonNegative, Positive, Target

PLATFORM_SCHEMA = "berth.platform/1"
LIKE_PROGRAMS = ("Integer_", "Irregular_", "Message_", "Single_")
"""Groups of reference kernels that run as whole programs do; others mostly stream through main
memory."""


class PlatformKind(StrEnum):
    """Kind of resource that the scheduler allocates: CPU cores of a node, a GPU, a MIG slice."""

    CPU = "cpu"
    GPU = "gpu"
    MIG = "mig"


class SignatureSource(StrEnum):
    """Origin of a signature's rates, most reliable first."""

    BENCHMARK = "benchmark"
    BABELSTREAM = "babelstream"
    SPEC = "spec"
    RULE_OF_THUMB = "rule-of-thumb"
    """Guessed by ``berth site init`` from the number of cores: nothing was measured."""


class Precision(StrEnum):
    """Number formats, wide to narrow."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"


_WIDER = {
    Precision.TF32: (Precision.FP32,),
    Precision.FP16: (Precision.FP32,),
    Precision.BF16: (Precision.FP32,),
    Precision.FP8: (Precision.FP16, Precision.BF16),
    Precision.INT8: (Precision.FP16, Precision.BF16),
    Precision.FP4: (Precision.FP8,),
}
"""Wider precisions to compute in where hardware does not support a precision."""


class Peaks(Document):
    """Peak operations per second of a whole device or node by precision, without sparsity.

    A precision that is absent is not supported by the hardware and computed in a wider precision.
    """

    vector: dict[Precision, Positive] = Field(default_factory=dict)
    """Peaks without matrix units (tensor cores)."""
    matrix: dict[Precision, Positive] = Field(default_factory=dict)
    """Peaks with matrix units, reached only by matrix products and convolutions."""

    @cached_property
    def attainable(self) -> Mapping[Precision, float]:
        """Return the highest peak by precision, of that precision or a wider one."""
        peaks: dict[Precision, float] = {}
        for precision in Precision:  # wide to narrow
            own = max(self.matrix.get(precision, 0.0), self.vector.get(precision, 0.0))
            for wider in _WIDER.get(precision, ()):
                own = max(own, peaks.get(wider, 0.0))
            if own:
                peaks[precision] = own
        return peaks


class MemoryLevel(Document):
    """One level of the memory hierarchy, with sustained rates."""

    level: str = Field(pattern="^(l1|l2|l3|dram)$")
    capacity_bytes: Positive
    """Capacity of one core's cache if each core has its own, else of the whole platform."""
    instances: int = Field(default=1, ge=1)
    """Number of separate caches that share ``capacity_bytes`` of a shared level; a core uses only
    one of them."""
    core_bytes_per_s: Positive | None = None
    total_bytes_per_s: Positive
    latency_s: Positive | None = None


class CoreScore(Document):
    """Speed of one core on whole programs, relative to one core of an EPYC 7742 (1)."""

    integer: Positive
    """Geometric mean of the speeds of integer programs."""
    floating_point: Positive
    """Geometric mean of the speeds of floating-point programs."""
    source: str = Field(min_length=1, max_length=500)
    """Who published or measured it, and how. A score without a source is worth nothing."""
    deviation: NonNegative = 0.0
    """Standard error of its natural log; 0 for a score measured on this processor model."""


class Signature(Document):
    """Performance ceilings of a platform. A rate that was not measured is None."""

    source: SignatureSource
    measured_on: str = ""
    """Date and command of the benchmark, or the document that the figures are from."""
    flops_f64_per_s: Positive
    flops_f32_per_s: Positive
    flops_f64_core_per_s: Positive | None = None
    flops_f32_core_per_s: Positive | None = None
    peaks: Peaks | None = None
    """Peaks by precision; None: those of the accelerator's data sheet."""
    memory: tuple[MemoryLevel, ...] = Field(min_length=1)
    int_ops_core_per_s: Positive | None = None
    scalar_chain_core_per_s: Positive | None = None
    """Scalar operations per second if each depends on the one before: the serial speed."""
    processor_share: float | None = Field(default=None, gt=0, le=1)
    """Processor seconds per wall-clock second of a computing thread while all cores compute. It is
    below 1 under a CPU quota or in a virtual machine whose host takes time. None: not measured,
    taken as 1."""
    core_score: CoreScore | None = None
    """Measured or published speed of one core; None: that of the processor catalogue, if any."""
    branch_misses_core_per_s: Positive | None = None
    gather_core_per_s: Positive | None = None
    gather_total_per_s: Positive | None = None
    reduction_total_bytes_per_s: Positive | None = None
    atomics_per_s: Positive | None = None
    """Atomic updates of one address per second."""
    scattered_atomics_per_s: Positive | None = None
    """On a GPU: atomic updates of many addresses per second."""
    launch_overhead_s: NonNegative | None = None
    """Seconds to start one parallel region (fork-join) or one GPU kernel."""
    thread_scaling: tuple[tuple[int, Positive], ...] = ()
    """(threads, byte/s of the STREAM triad in main memory), by ascending number of threads."""
    kernel_times_s: dict[str, Positive] = Field(default_factory=dict, max_length=1_000)
    """Seconds per repetition by kernel@size x threads, such as ``"Stream_TRIAD@8388608x1"``."""

    def level(self, name: str) -> MemoryLevel | None:
        """Return the memory level called ``name``, or None if the signature lacks it."""
        return next((m for m in self.memory if m.level == name), None)

    @model_validator(mode="after")
    def _has_main_memory(self) -> Signature:
        if self.level("dram") is None:
            raise ValueError("memory needs a level 'dram'")
        return self


class AllReduce(Document):
    """Time of one all-reduce (sum) between nodes of one platform."""

    ranks: int = Field(ge=2, le=10_000_000)
    """Number of ranks, evenly spread over the nodes."""
    message_bytes: Positive
    seconds: Positive


class Interconnect(Document):
    """The network between two nodes of one platform, as measured by a program.

    A value of None was not measured.
    """

    latency_s: Positive | None = None
    """One-way time of a message of a few bytes."""
    bytes_per_s: Positive | None = None
    """Bandwidth of large messages between two ranks, in one direction."""
    all_reduce: tuple[AllReduce, ...] = Field(default=(), max_length=1_000)
    measured_with: str = Field(default="", max_length=200)
    """Library used, such as ``MPI: Open MPI 4.1.4``; ``TCP`` if MPI could not be used."""
    nodes: tuple[str, ...] = Field(default=(), max_length=100)


class Platform(Document):
    """A kind of hardware with its capacities, price and power, and its Signature."""

    schema_: str = Field(default=PLATFORM_SCHEMA, alias="schema")
    name: Name
    kind: PlatformKind
    description: str = ""
    architecture: str = "x86_64"
    """CPU architecture of the node as ``uname -m`` prints it."""
    targets: tuple[Target, ...] = Field(default=(Target.CPU,), min_length=1)
    """Kinds of device of the platform; a program must support one. GPUs: cuda or hip."""
    instruction_sets: tuple[str, ...] = ()
    processor: str | None = Field(default=None, max_length=200)
    """CPU model name in ``/proc/cpuinfo``; None: unknown, so that no node is compared with it."""
    cores: int = Field(ge=1)
    """Physical CPU cores of the node (kind cpu), or multiprocessors of the GPU or MIG slice."""
    memory_bytes: Positive
    """Main memory of the node (kind cpu), or memory of the GPU or MIG slice."""
    price_per_hour: NonNegative | None = None
    """Price of the whole node, GPU or MIG slice per hour, in the site's currency."""
    power_w: Positive | None = None
    """Typical power of the whole node, GPU or MIG slice under load."""
    idle_power_w: NonNegative | None = None
    parent: Name | None = None
    """For a MIG slice: the platform of the whole GPU."""
    accelerator: str | None = Field(default=None, min_length=1, max_length=200)
    """Name of the GPU model in the hardware catalogue (``predictor/hardware``); None: the name of
    the platform is looked up there."""
    interconnect: Interconnect | None = None
    """The network between nodes of this platform; None: not measured."""
    signature: Signature

    @property
    def is_gpu(self) -> bool:
        """Return whether the platform is a whole GPU or a MIG slice."""
        return self.kind is not PlatformKind.CPU
