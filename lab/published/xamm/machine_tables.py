"""Profiles and benchmark data of machines as CSV: what the configuration of xAMM names."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.documents import read_json
from berth.pilot.errors import DocumentError
from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.hardware import platforms as known
from lab.published.xamm.benchmarks import Benchmarks, from_platforms

APPLICATION, CONFIGURATION, MACHINE, RUNTIME = "application", "config", "machine", "runtime_s"
_FIXED = (APPLICATION, CONFIGURATION, MACHINE, RUNTIME)


@dataclass(frozen=True, slots=True)
class Runs:
    """One row a run of an application in a configuration on a machine."""

    applications: tuple[str, ...]
    configurations: tuple[str, ...]
    machines: tuple[str, ...]
    seconds: Floats
    counters: tuple[str, ...]
    values: Floats
    """Runs x counters; NaN: an empty cell."""

    def __len__(self) -> int:
        return len(self.machines)


def read_runs(path: Path) -> Runs:
    """``application,config,machine,runtime_s`` and one column a counter.

    Raises DocumentError naming line and column: a column missing, a value that is no number, a
    run time that is not above 0, the same run twice.
    """
    header, lines = _read(path, _FIXED)
    counters = tuple(name for name in header if name not in _FIXED)
    if not counters:
        raise DocumentError(path, "has no counters", hint="one column each, after the others")
    values = [[_number(path, n, line, name) for name in counters] for n, line in lines]
    seconds = [_number(path, n, line, RUNTIME) for n, line in lines]
    seen: dict[tuple[str, str, str], int] = {}
    for (number, line), taken in zip(lines, seconds, strict=True):
        if not taken > 0:
            raise DocumentError(path, f"line {number}: {RUNTIME} must be above 0")
        run = line[APPLICATION], line[CONFIGURATION], line[MACHINE]
        if run in seen:
            raise DocumentError(path, f"line {number}: the same run as in line {seen[run]}")
        seen[run] = number
    return Runs(
        applications=tuple(line[APPLICATION] for _, line in lines),
        configurations=tuple(line[CONFIGURATION] for _, line in lines),
        machines=tuple(line[MACHINE] for _, line in lines),
        seconds=np.array(seconds),
        counters=counters,
        values=np.array(values),
    )


def read_benchmarks(path: Path) -> Benchmarks:
    """Return a CSV (``machine,config`` and one column a benchmark), or platform files.

    Of a platform file (`berth pilot bench`), or of a folder of them (`berth platform add`) and the
    shipped ones, the signatures are taken. Raises DocumentError.
    """
    if path.is_dir():
        return from_platforms(known.load(path).values())
    if path.suffix == ".json":
        return from_platforms([read_json(path, Platform)])
    header, lines = _read(path, (MACHINE, CONFIGURATION))
    features = tuple(name for name in header if name not in {MACHINE, CONFIGURATION})
    if not features:
        raise DocumentError(path, "has no benchmarks", hint="one column each, after the others")
    rows: dict[str, list[list[float]]] = {}
    for number, line in lines:
        values = [_number(path, number, line, name) for name in features]
        if not all(math.isnan(v) or v > 0 for v in values):
            raise DocumentError(path, f"line {number}: benchmark results must be above 0")
        rows.setdefault(line[MACHINE], []).append([math.log(v) for v in values])
    return Benchmarks(features, {name: np.array(values) for name, values in rows.items()})


def _read(
    path: Path, needed: tuple[str, ...]
) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, restkey="", strict=True)
            header = list(reader.fieldnames or [])
            lines = [(reader.line_num, line) for line in reader]
    except FileNotFoundError:
        raise DocumentError(path, "does not exist") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DocumentError(path, f"cannot be read: {error}") from None
    if absent := [name for name in needed if name not in header]:
        raise DocumentError(path, f"has no column {absent[0]!r}")
    if len(set(header)) < len(header):
        raise DocumentError(path, "has two columns of one name")
    if not lines:
        raise DocumentError(path, "holds no rows")
    for number, line in lines:
        if "" in line or None in line.values():
            raise DocumentError(path, f"line {number} has another number of cells than the header")
    return header, lines


def _number(path: Path, number: int, line: dict[str, str], name: str) -> float:
    text = line[name].strip()
    if not text and name != RUNTIME:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DocumentError(path, f"line {number}: {name} is {text!r}, not a number")
    return value
