"""The values that importers hand on, and the bounds within which a file is read.

An importer turns one file into a :class:`Reading`: the tool that wrote it and its regions, each
with the tool's own names for what it counted, in base units (seconds, bytes, counts). It knows
nothing of the catalogue; :mod:`berth.pilot.importers.profiles` does the naming. Caliper and Hatchet
files come by way of :class:`Table`: rows of numbers at places of a call tree.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.pilot.profile import Target

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 256
"""Levels of regions within regions."""
MAX_REGIONS = 20_000
MAX_RECORDS = 2_000_000
MAX_NAMES = 5_000
"""Different metrics of one file."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A total over one run of the region, in seconds, bytes or counts."""

    value: float
    note: str | None = None
    complete: bool = True
    """False where only a part of the run was counted."""


@dataclass(frozen=True, slots=True)
class Region:
    """One region, kernel or whole program as the tool saw it."""

    path: tuple[str, ...]
    """Region names from the outermost inwards; empty: the whole program."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    """Metrics that the file names without a value to use, and why."""
    runtime_s: float | None = None
    runtime_note: str = ""
    """The way in which the time was read; or, where there is none, the reason."""
    size: float | None = None

    @property
    def label(self) -> str:
        """Return the path as people write it."""
        return "/".join(self.path) or "(program)"


@dataclass(frozen=True, slots=True)
class Reading:
    """One run in one file (a Thicket holds several)."""

    tool: str
    sources: tuple[str, ...]
    """Keys of the catalogue's ``sources`` under which this tool's names stand, best first."""
    regions: tuple[Region, ...]
    version: str = ""
    host_cpu: str = ""
    measured: str = ""
    """Time of the measurement, as the file says it."""
    command: tuple[str, ...] = ()
    targets: tuple[Target, ...] | None = None
    """What the program runs on; None: the file does not say."""
    architecture: str | None = None
    threads: int | None = None
    ranks: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One file's content with its digest."""

    path: Path
    raw: bytes
    sha256: str

    @property
    def text(self) -> str:
        """Return the content as UTF-8 text.

        Raises DocumentError naming the line of a byte that is none.
        """
        try:
            return self.raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.raw.count(b"\n", 0, error.start) + 1
            raise fault(self.path, line, "is not UTF-8 text") from None


def load(path: Path) -> Source:
    """Read the file within ``MAX_FILE_BYTES``. Raises DocumentError where it cannot be read.

    A pipe or a device is refused: it may never end, or never begin.
    """
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
    return Source(path, raw, hashlib.sha256(raw).hexdigest())


def fault(path: Path | str, line: int | None, problem: str, hint: str | None = None) -> Exception:
    """Return a DocumentError that names the line."""
    return DocumentError(path, problem, key=f"line {line}" if line else None, hint=hint)


SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "msecond": 1e-3, "us": 1e-6, "usec": 1e-6, "usecond": 1e-6,
    "ns": 1e-9, "nsec": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
"""Units of time as the tools write them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its place in the tree, its numbers and its labels by column."""

    path: tuple[str, ...]
    numbers: dict[str, float]
    labels: dict[str, str]
    line: int
    """Line of the file, or index of the row."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one run, and the file's statements about the run as a whole."""

    records: list[Record]
    facts: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """Column -> its unit, where the file says it."""
    aliases: Mapping[str, str] = field(default_factory=dict)


def number(value: str | float) -> float | None:
    """Return the value as a finite number; None: it is none."""
    if isinstance(value, bool):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None
