"""The data types that importers return, and the size limits for imported files.

An importer converts one file to an :class:`ImportedRun`: the tool that wrote the file, and its
regions with the tool's own metric names, in base units (seconds, bytes, counts).
:mod:`berth.pilot.importers.profiles` then maps the metrics to the catalogue's counters. Caliper's
files are first read into a :class:`CallTree`: rows of numbers at nodes of a call tree.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.pilot.profile import Target

PROFILE = "profile"
"""The purpose of readers whose ``read(file, options)`` returns the runs that a file measured."""
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 256
"""Deepest nesting of regions."""
MAX_REGIONS = 20_000
MAX_RECORDS = 500_000
MAX_NAMES = 5_000
"""Largest number of different metrics in a file."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The total of a metric over one run of a region, in seconds, bytes or counts."""

    value: float
    note: str | None = None
    complete: bool = True
    """False where the tool counted only a part of the run."""
    relative_error: float | None = None
    """Standard error over ``value``, where it was scaled from a small part of the run."""


@dataclass(frozen=True, slots=True)
class Region:
    """A region, a GPU kernel or the whole program, with its metrics by the tool's names."""

    path: tuple[str, ...]
    """Region names from the outermost inwards; empty: the whole program."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """Reasons why metrics that the file names have no usable value, by metric."""
    runtime_s: float | None = None
    runtime_note: str = ""
    """How ``runtime_s`` was read, or why it is None."""
    size: float | None = None

    @property
    def label(self) -> str:
        """Return the region path joined by ``/``, or ``(program)`` for the whole program."""
        return "/".join(self.path) or "(program)"


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """One run of a program as an imported file describes it."""

    tool: str
    sources: tuple[str, ...]
    """Keys in the catalogue's ``sources`` for this tool's metric names, in order of preference."""
    regions: tuple[Region, ...]
    version: str = ""
    host_cpu: str = ""
    measured: str = ""
    """Time of the measurement, as the file states it."""
    command: tuple[str, ...] = ()
    targets: tuple[Target, ...] | None = None
    """Hardware that the program runs on; None where the file does not state it."""
    architecture: str | None = None
    threads: int | None = None
    ranks: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Facts about a measurement file that the user states because the file lacks them."""

    time_factor: float | None = None
    """Seconds per unit of times whose unit the file does not state."""
    processor: str | None = None
    """Processor family of perf's raw event codes: intel, amd, arm or power."""


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The content of an imported file, with its path and SHA-256."""

    path: Path
    raw: bytes
    sha256: str

    @property
    def text(self) -> str:
        """Return the file's content as UTF-8 text.

        Raises DocumentError that names the first line with invalid bytes.
        """
        try:
            return self.raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.raw.count(b"\n", 0, error.start) + 1
            raise fault(self.path, line, "is not UTF-8 text") from None


def load(path: Path) -> ImportedFile:
    """Return the content of a regular file of at most ``MAX_FILE_BYTES``; of a folder, nothing.

    Raises DocumentError for other files, and for pipes and devices, which may block.
    """
    if path.is_dir():
        return ImportedFile(path, b"", "")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise DocumentError(path, "is not a regular file", hint="write it to a file first")
        with os.fdopen(handle, "rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise DocumentError(path, "does not exist") from None
    except OSError as error:
        raise DocumentError(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise DocumentError(
            path,
            f"is larger than {MAX_FILE_BYTES} bytes",
            hint="aggregate it with the tool's own commands first (a profile, not a trace)",
        )
    return ImportedFile(path, raw, hashlib.sha256(raw).hexdigest())


def whole_runs(
    read: Callable[[ImportedFile], ImportedRun],
) -> Callable[[ImportedFile, ImportOptions], list[ImportedRun]]:
    """Return ``read``, of a tool's files that hold one run, as a Reader calls it."""
    return lambda source, _options: [read(source)]


def fault(path: Path | str, line: int | None, problem: str, hint: str | None = None) -> Exception:
    """Return a DocumentError about a line of a file (None: about the whole file)."""
    return DocumentError(path, problem, key=f"line {line}" if line else None, hint=hint)


SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "msecond": 1e-3, "us": 1e-6, "usec": 1e-6, "usecond": 1e-6,
    "ns": 1e-9, "nsec": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
"""Seconds per unit of time, by the names that measuring tools write."""


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A row of an imported table: its region path, and its numbers and labels by column."""

    path: tuple[str, ...]
    numbers: dict[str, float]
    labels: dict[str, str]
    line: int
    """Line number in the file, or index of the row."""

    def put(self, name: str, value: str | float) -> None:
        """Add a column's value: to the numbers if it is one, else to the labels."""
        parsed = count_of(value)
        if parsed is None:
            self.labels[name] = str(value)
        else:
            self.numbers[name] = parsed


@dataclass(frozen=True, slots=True)
class CallTree:
    """The rows of one run, and the file's metadata of the run (``facts``)."""

    records: list[TreeRow]
    facts: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit by column, where the file states it."""
    aliases: Mapping[str, str] = field(default_factory=dict)


def number(value: str | float) -> float | None:
    """Return the value as a float; None where it is not a finite number."""
    if isinstance(value, bool):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def count_of(value: str | float) -> float | None:
    """Return the value as a float; None where it is not a number.

    A negative value, which is no count either, becomes nan, so that no sum hides it:
    :mod:`berth.pilot.plausible` judges what importers read.
    """
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if parsed >= 0 else math.nan
