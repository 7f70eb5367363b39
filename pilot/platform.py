"""Platform and Signature: a kind of hardware, and what benchmarks measured on it.

One JSON file a platform (``berth.platform/1``). Rates are SI units per second. ``core`` rates
are one core (one SM-independent stream for GPUs has no core rate: None), ``total`` rates are
the whole platform: a whole node, one GPU, one MIG slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import Field, model_validator

from berth.pilot.documents import Document
from berth.pilot.profile import Name, NonNegative, Positive, Target

PLATFORM_SCHEMA = "berth.platform/1"


class PlatformKind(StrEnum):
    """The unit that the scheduler hands out."""

    CPU = "cpu"
    GPU = "gpu"
    MIG = "mig"


class SignatureSource(StrEnum):
    """Origins of a signature's rates, best first."""

    BENCHMARK = "benchmark"
    BABELSTREAM = "babelstream"
    SPEC = "spec"


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
"""Wider precisions to compute in where a precision has no units of its own."""


class Peaks(Document):
    """Peak operations per second of a whole device or node by precision, dense (no sparsity).

    A precision that is absent has no units of its own: it is computed in a wider one.
    """

    vector: dict[Precision, Positive] = Field(default_factory=dict)
    """Without matrix units (tensor cores)."""
    matrix: dict[Precision, Positive] = Field(default_factory=dict)
    """Peaks with matrix units, for matrix products and convolutions alone."""

    @cached_property
    def attainable(self) -> Mapping[Precision, float]:
        """Return the peak of each precision, in its own units or a wider one's."""
        peaks: dict[Precision, float] = {}
        for precision in Precision:  # wide to narrow
            own = max(self.matrix.get(precision, 0.0), self.vector.get(precision, 0.0))
            for wider in _WIDER.get(precision, ()):
                own = max(own, peaks.get(wider, 0.0))
            if own:
                peaks[precision] = own
        return peaks


class MemoryLevel(Document):
    """One level of the memory hierarchy, sustained rates."""

    level: str = Field(pattern="^(l1|l2|l3|dram)$")
    capacity_bytes: Positive
    """Capacity of one core's share of private levels, of the whole platform of shared ones."""
    instances: int = Field(default=1, ge=1)
    """Separate caches that a shared level's ``capacity_bytes`` is in all; a core reaches one."""
    core_bytes_per_s: Positive | None = None
    total_bytes_per_s: Positive
    latency_s: Positive | None = None


class Signature(Document):
    """Ceilings of a platform. A rate that nobody measured is None, never guessed here."""

    source: SignatureSource
    measured_on: str = ""
    """Date and command, or the document that the figures are from."""
    flops_f64_per_s: Positive
    flops_f32_per_s: Positive
    flops_f64_core_per_s: Positive | None = None
    flops_f32_core_per_s: Positive | None = None
    peaks: Peaks | None = None
    """Peaks by precision; absent ones are taken from the accelerator's data sheet."""
    memory: tuple[MemoryLevel, ...] = Field(min_length=1)
    int_ops_core_per_s: Positive | None = None
    scalar_chain_core_per_s: Positive | None = None
    """Dependent scalar operations per second: the serial speed."""
    processor_share: float | None = Field(default=None, gt=0, le=1)
    """Processor time that a computing thread gets for each second, where all cores compute: below
    1 where a quota or a virtual machine's host takes the rest. None: not measured, taken as 1."""
    branch_misses_core_per_s: Positive | None = None
    gather_core_per_s: Positive | None = None
    gather_total_per_s: Positive | None = None
    reduction_total_bytes_per_s: Positive | None = None
    atomics_per_s: Positive | None = None
    launch_overhead_s: NonNegative | None = None
    """Starting one parallel region (fork-join) or one GPU kernel."""
    thread_scaling: tuple[tuple[int, Positive], ...] = ()
    """(threads, triad bytes per second): how the memory saturates."""
    kernel_times_s: dict[str, Positive] = Field(default_factory=dict, max_length=1_000)
    """Anchor kernels: ``"Stream_TRIAD@8388608x1"`` (name@size x threads) -> seconds a rep."""

    def level(self, name: str) -> MemoryLevel | None:
        """Return the named level, or None where this signature lacks it."""
        return next((m for m in self.memory if m.level == name), None)

    @model_validator(mode="after")
    def _has_main_memory(self) -> Signature:
        if self.level("dram") is None:
            raise ValueError("memory needs a level 'dram'")
        return self


class AllReduce(Document):
    """Time of one all-reduce (sum) between nodes of the kind."""

    ranks: int = Field(ge=2, le=10_000_000)
    """Number of ranks, evenly spread over the nodes."""
    message_bytes: Positive
    seconds: Positive


class Interconnect(Document):
    """The connection of two nodes of the kind, as a program sees it. None: not measured."""

    latency_s: Positive | None = None
    """One way, of a message of a few bytes."""
    bytes_per_s: Positive | None = None
    """Rate of a large message, point to point, one direction."""
    all_reduce: tuple[AllReduce, ...] = Field(default=(), max_length=1_000)
    measured_with: str = Field(default="", max_length=200)
    """Library used, such as ``MPI: Open MPI 4.1.4``, or ``TCP`` where there is no MPI."""
    nodes: tuple[str, ...] = Field(default=(), max_length=100)


class Platform(Document):
    """A kind of hardware with its capacities, price and power, and its Signature."""

    schema_: str = Field(default=PLATFORM_SCHEMA, alias="schema")
    name: Name
    kind: PlatformKind
    description: str = ""
    architecture: str = "x86_64"
    """Host machine (``uname -m`` terms) that programs for it are built for."""
    targets: tuple[Target, ...] = Field(default=(Target.CPU,), min_length=1)
    """Devices that programs for it must be able to run on; a GPU platform lists cuda or hip."""
    instruction_sets: tuple[str, ...] = ()
    processor: str | None = Field(default=None, max_length=200)
    """Model name as Linux gives it (``/proc/cpuinfo``); None: not known, and never compared."""
    cores: int = Field(ge=1)
    """Physical CPU cores of the node (kind cpu), or multiprocessors of the GPU or slice."""
    memory_bytes: Positive
    """Main memory of the node (kind cpu), or of one GPU or slice."""
    price_per_hour: NonNegative | None = None
    """Price of the whole platform unit, in the site's currency."""
    power_w: Positive | None = None
    """Typical power under load of the whole unit."""
    idle_power_w: NonNegative | None = None
    parent: Name | None = None
    """The platform that a MIG slice is cut from."""
    accelerator: str | None = Field(default=None, min_length=1, max_length=200)
    """The device that it is, by any name of the hardware catalogue (``predictor/hardware``);
    without it, the platform's own name is looked up there."""
    interconnect: Interconnect | None = None
    """Between nodes of this kind."""
    signature: Signature

    @property
    def is_gpu(self) -> bool:
        """Return whether it is a whole GPU or a slice of one."""
        return self.kind is not PlatformKind.CPU
