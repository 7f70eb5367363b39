"""The Profile: the measurements of one workload on one platform.

``docs/profile.md`` describes the file for users. A value that could not be measured is *missing*
(``value`` is None and ``note`` has the reason); it is never written as zero.
"""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from berth.pilot.documents import Document, parse_json_lines
from berth.pilot.errors import DocumentError

PROFILE_SCHEMA = "berth.profile/1"

NonNegative = Annotated[float, Field(ge=0)]


def _not_tiny(value: float) -> float:
    if value < 1e-30:
        raise ValueError("is too small: at least 1e-30")
    return value


Positive = Annotated[float, Field(gt=0, le=1e30), AfterValidator(_not_tiny)]
"""A number from 1e-30 to 1e30: products and quotients of two such numbers are finite floats."""
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class Quality(StrEnum):
    """How a counter's value was obtained; ``missing`` means that there is no value."""

    MEASURED = "measured"
    EMULATED = "emulated"
    DERIVED = "derived"
    MISSING = "missing"


class Target(StrEnum):
    """Kind of device that a program can run on."""

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
    """Standard error of a count that was scaled from a part, in the unit of ``value``; None: exact.
    """
    complete: bool = True
    """False: the run was cut short, so ``value`` covers only a part of the program."""

    @model_validator(mode="after")
    def _missing_has_no_value(self) -> Measurement:
        if (self.value is None) != (self.quality is Quality.MISSING):
            raise ValueError("a missing counter has no value, and any other has one")
        return self


class Runtime(Document):
    """Wall-clock time of a program's native runs, without the time for which other work on the
    machine kept them waiting; ``spread_s`` is the interquartile range."""

    median_s: Positive
    spread_s: NonNegative
    repeats_s: tuple[Positive, ...] = Field(min_length=1, max_length=10_000)
    noise: NonNegative | None = None
    """Standard deviation of the natural log of a further run's time around ``median_s``, because
    the machine was busy; None: it was quiet, or that is not known."""


class RunsOn(Document):
    """Hardware that the program needs to run at all; every placement must provide it."""

    targets: tuple[Target, ...] = Field(default=(Target.CPU,), min_length=1)
    architecture: str = "x86_64"
    """Architecture of the executable as ``uname -m`` prints it: x86_64, aarch64, ppc64le."""
    instruction_sets: tuple[str, ...] = ()
    """Instruction set extensions that the program needs, such as avx2 or avx512f."""
    threads: int = Field(default=1, ge=1, le=1_000_000)
    """Threads and processes that compute at the same time; of an MPI program, in each rank."""
    ranks: int = Field(default=1, ge=1, le=10_000_000)
    gpus: int = Field(default=0, ge=0, le=100_000)
    container: str | None = None
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    """Number of nodes of the ranks; None: unknown, taken as one."""
    follows_shape: bool | None = None
    """True: the job script starts as many tasks and threads as the scheduler allocates, so that
    Berth may request other numbers of them. None: unknown; the requested numbers are kept."""


class SizePoint(Document):
    """Time and peak memory of the Profile's program at one of several problem sizes."""

    size: Positive
    runtime_s: Positive
    peak_memory_bytes: Positive
    peak_memory_is_bound: bool | None = None
    """True: ``peak_memory_bytes`` is only an upper bound, as the program's peak was below what
    can be measured."""


class ScalingPoint(Document):
    """Time of the Profile's program at the same problem size with another number of threads."""

    threads: int = Field(ge=1)
    runtime_s: Positive


class Ranks(Document):
    """Times and memory of the ranks of one parallel run, to show how the ranks differ."""

    count: int = Field(ge=1, le=10_000_000)
    """Number of ranks that were measured."""
    slowest_s: Positive
    mean_s: Positive
    busiest_cpu_s: NonNegative
    """Largest processor time of a rank; it includes spinning while waiting for other ranks."""
    mean_cpu_s: NonNegative
    largest_memory_bytes: NonNegative
    mean_memory_bytes: NonNegative
    node_memory_bytes: NonNegative
    """Sum of the peak memory of a node's ranks, of the node with the largest sum."""


class NodePoint(Document):
    """Time of the Profile's program on another number of nodes."""

    nodes: int = Field(ge=1, le=1_000_000)
    ranks: int = Field(ge=1, le=10_000_000)
    size: Positive | None = None
    """Problem size of that run; None: the program was run without sizes."""
    runtime_s: Positive
    spread_s: NonNegative = 0.0
    peak_memory_bytes: Positive | None = None
    """Peak memory of all nodes together."""


class CollectorReport(Document):
    """Status of a collector in a pilot (used, absent, failed or skipped), and the reason."""

    name: str
    status: str = Field(pattern="^(used|absent|failed|skipped)$")
    detail: str = ""


class Invocation(Document):
    """The program as it was run: its command and problem size."""

    command: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    size: Positive | None = None
    """Problem size of the main measurement, in the program's own unit."""
    executable_sha256: str | None = None


class Imported(Document):
    """The file of another tool that a Profile was imported from."""

    tool: str
    tool_version: str = ""
    file: str
    file_sha256: str
    region: str
    """Path of the region in the file, outermost first."""
    measured: str = ""
    """Time of the measurement, in the format of the file; empty: the file has none."""


class Provenance(Document):
    """Who measured the Profile, when, and with which software and machine."""

    created: str
    berth_version: str
    host_cpu: str = ""
    kernel: str = ""
    user: str = ""
    imported: Imported | None = None
    """The imported file; ``created`` is then the time of the import. None: measured by Berth."""


class Machine(Document):
    """The machine of a pilot run: properties that can differ within one platform."""

    host: str
    gpu_driver: str | None = None
    """Version of NVIDIA's kernel driver; None: the driver was not loaded."""


class Profile(Document):
    """The measurements of one workload on one platform."""

    schema_: str = Field(default=PROFILE_SCHEMA, alias="schema")
    name: Name
    platform: Name
    """Name of the platform that the pilot ran on; predicted speedups are relative to it."""
    workload: Invocation
    runs_on: RunsOn = RunsOn()
    exit_status: int = 0
    complete: bool = True
    """False: the program failed, was killed or reached the time limit."""
    runtime: Runtime | None
    runtime_at_least_s: Positive | None = None
    """Time after which the program was cut at the pilot's time limit; None: it was not."""
    peak_memory_bytes: Positive | None
    peak_memory_is_bound: bool | None = None
    """True: ``peak_memory_bytes`` is only an upper bound, as the program's peak was below what
    can be measured."""
    counters: dict[str, Measurement] = Field(max_length=2_000)
    """Total of one run of the program, by the counter's name in the catalogue."""
    sizes: tuple[SizePoint, ...] = Field(default=(), max_length=100)
    scaling: tuple[ScalingPoint, ...] = Field(default=(), max_length=1_000)
    one_thread_s: Positive | None = None
    """Runtime of a multi-threaded program on one thread, without its waits for a processor; None:
    not measured."""
    ranks: Ranks | None = None
    """Times and memory by rank; None: the ranks were not measured one by one."""
    node_scaling: tuple[NodePoint, ...] | None = Field(default=None, max_length=100)
    """Runs at other numbers of nodes than the main run, in ascending order."""
    collectors: tuple[CollectorReport, ...] = Field(default=(), max_length=100)
    warnings: tuple[str, ...] = Field(default=(), max_length=1_000)
    machine: Machine | None = None
    """The machine of the run; None: unknown, for example for imported profiles."""
    provenance: Provenance

    def value(self, counter: str) -> float | None:
        """Return the value of the named counter, or None if it is missing."""
        measurement = self.counters.get(counter)
        return None if measurement is None else measurement.value

    @model_validator(mode="after")
    def _sizes_are_distinct(self) -> Profile:
        seen = [point.size for point in self.sizes]
        if any(math.isclose(a, b) for i, a in enumerate(seen) for b in seen[:i]):
            raise ValueError("two size points have the same size")
        return self


def read_profiles(path: Path) -> list[Profile]:
    """Return the Profiles of a file with one a line. Raises DocumentError that names a bad line."""
    try:
        lines = path.read_bytes()
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error}") from None
    return list(parse_json_lines(lines, Profile, source=path).values())
