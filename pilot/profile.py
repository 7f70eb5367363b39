"""The Profile: what one run of one workload on one platform measured.

Documented for people in ``docs/profile.md``. A value that could not be measured is *missing*
(``value`` is None and ``note`` says why); it is never a made-up zero.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from berth.pilot.documents import Document

PROFILE_SCHEMA = "berth.profile/1"

NonNegative = Annotated[float, Field(ge=0)]


def _not_tiny(value: float) -> float:
    if value < 1e-30:
        raise ValueError("is too small: at least 1e-30")
    return value


Positive = Annotated[float, Field(gt=0, le=1e30), AfterValidator(_not_tiny)]
"""Above zero, and within what quotients and products of such numbers can be written in."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class Quality(StrEnum):
    """How a number came to be."""

    MEASURED = "measured"
    EMULATED = "emulated"
    DERIVED = "derived"
    MISSING = "missing"


class Target(StrEnum):
    """What kind of device a program can run on."""

    CPU = "cpu"
    CUDA = "cuda"
    HIP = "hip"


class Measurement(Document):
    """One counter's value, in the unit that the catalogue gives for its name."""

    value: NonNegative | None
    quality: Quality
    source: str
    note: str | None = None
    standard_error: NonNegative | None = None
    """Standard error of a count of which a part was simulated, in its unit; None: there is none."""
    complete: bool = True
    """False where the run that counted it was cut short: the total is of a part of the program."""

    @model_validator(mode="after")
    def _missing_has_no_value(self) -> Measurement:
        if (self.value is None) != (self.quality is Quality.MISSING):
            raise ValueError("a missing counter has no value, and any other has one")
        return self


class Runtime(Document):
    """Wall-clock time of the native repeats. ``spread_s`` is the interquartile range."""

    median_s: Positive
    spread_s: NonNegative
    repeats_s: tuple[Positive, ...] = Field(min_length=1, max_length=10_000)


class RunsOn(Document):
    """Where the program can run at all: the hard constraint of every placement."""

    targets: tuple[Target, ...] = Field(default=(Target.CPU,), min_length=1)
    architecture: str = "x86_64"
    """Machine of the executable (``uname -m`` terms: x86_64, aarch64, ppc64le)."""
    instruction_sets: tuple[str, ...] = ()
    """Extensions that the program was seen to need (for example avx2, avx512f)."""
    threads: int = Field(default=1, ge=1, le=1_000_000)
    ranks: int = Field(default=1, ge=1, le=10_000_000)
    gpus: int = Field(default=0, ge=0, le=100_000)
    container: str | None = None
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    """Nodes that its ranks were on; None: one, as far as is known."""
    follows_shape: bool | None = None
    """True: its script starts as many tasks and threads as the scheduler gives it, so that a place
    may give it other numbers of them. None: not known, and they stay as asked."""


class SizePoint(Document):
    """Time and peak memory of the same program at one problem size."""

    size: Positive
    runtime_s: Positive
    peak_memory_bytes: Positive
    peak_memory_is_bound: bool | None = None
    """True: the program was too small to tell its peak, which is at most this."""


class ScalingPoint(Document):
    """Time of the same program and size at another number of threads."""

    threads: int = Field(ge=1)
    runtime_s: Positive


class Ranks(Document):
    """How the ranks of one parallel run differed, each from its start to its end."""

    count: int = Field(ge=1, le=10_000_000)
    """Number of ranks that were measured."""
    slowest_s: Positive
    mean_s: Positive
    busiest_cpu_s: NonNegative
    """Processor time of the rank that had most; ranks that wait may compute meanwhile."""
    mean_cpu_s: NonNegative
    largest_memory_bytes: NonNegative
    mean_memory_bytes: NonNegative
    node_memory_bytes: NonNegative
    """Largest sum over the ranks of one node."""


class NodePoint(Document):
    """Time of the same program on another number of nodes."""

    nodes: int = Field(ge=1, le=1_000_000)
    ranks: int = Field(ge=1, le=10_000_000)
    size: Positive | None = None
    """Problem size of that run, where it has one."""
    runtime_s: Positive
    spread_s: NonNegative = 0.0
    peak_memory_bytes: Positive | None = None
    """Peak memory of all nodes together."""


class CollectorReport(Document):
    """What one collector did: used, absent or failed, and why."""

    name: str
    status: str = Field(pattern="^(used|absent|failed|skipped)$")
    detail: str = ""


class Workload(Document):
    """The program as it was run."""

    command: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    size: Positive | None = None
    """Problem size of the main measurement, in the program's own terms."""
    executable_sha256: str | None = None


class Imported(Document):
    """Which file of which tool a Profile was made from."""

    tool: str
    tool_version: str = ""
    file: str
    file_sha256: str
    region: str
    """Path of the region in the file, outermost first."""
    measured: str = ""
    """Time of the measurement, as the file says it."""


class Provenance(Document):
    """Who measured, when, with what."""

    created: str
    berth_version: str
    host_cpu: str = ""
    kernel: str = ""
    user: str = ""
    imported: Imported | None = None
    """The file it is from; ``created`` is then when it was imported. None: measured by Berth."""


class Machine(Document):
    """Where a pilot ran, as far as it may change without its platform changing."""

    host: str
    gpu_driver: str | None = None
    """Version of NVIDIA's kernel driver; None: it was not loaded."""


class Profile(Document):
    """Everything that one pilot learnt about one workload."""

    schema_: str = Field(default=PROFILE_SCHEMA, alias="schema")
    name: Name
    platform: Name
    """Name of the platform the pilot ran on: the reference of all speedups."""
    workload: Workload
    runs_on: RunsOn = RunsOn()
    exit_status: int = 0
    complete: bool = True
    """False when the program failed, was killed or ran into the time limit."""
    runtime: Runtime | None
    peak_memory_bytes: Positive | None
    peak_memory_is_bound: bool | None = None
    """True: the program was too small to tell its peak, which is at most this."""
    counters: dict[str, Measurement] = Field(max_length=2_000)
    """Counters by catalogue name; totals of one complete run."""
    sizes: tuple[SizePoint, ...] = Field(default=(), max_length=100)
    scaling: tuple[ScalingPoint, ...] = Field(default=(), max_length=1_000)
    one_thread_s: Positive | None = None
    """Run time of a program of several threads on one, less what it waited for a processor; None:
    not tried, or not to be had."""
    ranks: Ranks | None = None
    """Differences between the ranks of a parallel launch that were all measured."""
    node_scaling: tuple[NodePoint, ...] | None = Field(default=None, max_length=100)
    """Runs on other numbers of nodes than the main one, ascending."""
    collectors: tuple[CollectorReport, ...] = Field(default=(), max_length=100)
    warnings: tuple[str, ...] = Field(default=(), max_length=1_000)
    machine: Machine | None = None
    """The machine it ran on; None: not known, as of imported measurements."""
    provenance: Provenance

    def value(self, counter: str) -> float | None:
        """Return the counter's value, or None where it is missing."""
        measurement = self.counters.get(counter)
        return None if measurement is None else measurement.value

    @model_validator(mode="after")
    def _sizes_are_distinct(self) -> Profile:
        seen = [point.size for point in self.sizes]
        if any(math.isclose(a, b) for i, a in enumerate(seen) for b in seen[:i]):
            raise ValueError("two size points have the same size")
        return self
