"""Samples of xAMM: runs and benchmark data read from CSV, and workloads with their speedups."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from berth.pilot.documents import read_json
from berth.pilot.errors import DocumentError
from berth.pilot.platform import Platform
from berth.predictor.core.arrays import Floats
from berth.predictor.families.relative.rows import Rows
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

    Of a platform file (`berth pilot bench`), or of a folder of them (`berth site platform add`) and
    the shipped ones, the signatures are taken. Raises DocumentError.
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


@dataclass(frozen=True, slots=True)
class Samples:
    """One row a (workload, source) that was run there."""

    features: Floats
    """Samples x (counters + 1): log(1 + counter), and the log of the time on the source."""
    sources: tuple[str, ...]
    """One a sample."""
    targets: tuple[str, ...]
    log_speedup: Floats
    """Samples x targets: log(t_source / t_target); NaN: not known, or the source itself."""
    rows: tuple[int, ...]
    """Index of the workload of each sample."""

    def __len__(self) -> int:
        return len(self.features)


def samples_of(rows: Rows, sources: Sequence[str], targets: Sequence[str]) -> Samples:
    """Return every row on every source that it was run on."""
    places = [
        (source, column, int(row))
        for source in sources
        for column in [rows.platforms.index(source)]
        for row in np.flatnonzero(np.isfinite(rows.log_seconds[:, column]))
    ]
    index = [row for _, _, row in places]
    here = rows.log_seconds[index, [column for _, column, _ in places]]
    columns = [rows.platforms.index(name) for name in targets]
    return _samples(
        values=rows.values[index],
        here=here,
        sources=[source for source, _, _ in places],
        targets=tuple(targets),
        table=rows.log_seconds[:, columns],
        index=index,
    )


def samples_of_runs(runs: Runs) -> Samples:
    """Return every run is a sample on its machine; its targets are all machines.

    The counters of a workload may differ from machine to machine here.
    """
    keys, machines, table = times(runs)
    place = {key: i for i, key in enumerate(keys)}
    index = [place[key] for key in zip(runs.applications, runs.configurations, strict=True)]
    return _samples(
        values=runs.values,
        here=np.log(runs.seconds),
        sources=runs.machines,
        targets=machines,
        table=table,
        index=index,
    )


def times(runs: Runs) -> tuple[list[tuple[str, str]], tuple[str, ...], Floats]:
    """Workloads (application, configuration), machines, and log seconds of each pair."""
    machines = tuple(sorted(set(runs.machines)))
    keys = sorted(set(zip(runs.applications, runs.configurations, strict=True)))
    table = np.full((len(keys), len(machines)), np.nan)
    place = {key: i for i, key in enumerate(keys)}
    for a, c, m, seconds in zip(
        runs.applications, runs.configurations, runs.machines, runs.seconds, strict=True
    ):
        table[place[a, c], machines.index(m)] = np.log(seconds)
    return keys, machines, table


def _samples(
    *,
    values: Floats,
    here: Floats,
    sources: Sequence[str],
    targets: tuple[str, ...],
    table: Floats,
    index: Sequence[int],
) -> Samples:
    own = np.array(sources)[:, None] == np.array(targets)[None, :]
    return Samples(
        features=np.column_stack([np.log1p(values), here]),
        sources=tuple(sources),
        targets=targets,
        log_speedup=np.where(own, np.nan, here[:, None] - table[list(index)]),
        rows=tuple(index),
    )


def joined(
    embedded: Floats,
    sources: Sequence[str],
    targets: Sequence[str],
    machines: Mapping[str, Floats] | None,
) -> Floats:
    """Equation 3: embedding of the sample, AMM of the source, AMM of the target, side by side.

    (Samples x targets) x inputs, samples first; without ``machines`` the embedding alone.
    """
    repeated = np.repeat(embedded, len(targets), axis=0)
    if machines is None:
        return repeated
    here = np.repeat(np.array([machines[name] for name in sources]), len(targets), axis=0)
    there = np.tile(np.array([machines[name] for name in targets]), (len(embedded), 1))
    return np.hstack([repeated, here, there])
