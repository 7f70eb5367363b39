"""Read CSV tables that a user writes for a replay: with a header, optionally compressed by gzip.

*Jobs*: ``submit_s`` and at least one ``seconds@PLATFORM`` are required; ``user``, ``partition``,
``cores``, ``gpus``, ``nodes``, ``limit_s`` and ``predicted@PLATFORM`` are optional. An empty cell
means unknown. A line that cannot be read is skipped and counted.

*Run times* on other platforms: ``job,platform,runtime_s``, by the scheduler's job id.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.plugin.history.files import lines_of
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import ReadJobs, Unreadable
from berth.policies.replay.cluster import Cluster
from berth.policies.replay.trace import Floats, Trace, numbered, trace_of

_WORDS: tuple[str, ...] = ("user", "partition")
"""Columns of text; all others hold numbers."""
_DEFAULTS = {"cores": 1.0, "nodes": 0.0, "gpus": 0.0}
"""Values of empty cells and missing columns of jobs."""
_PLAIN = ("submit_s", "user", "partition", "cores", "gpus", "nodes", "limit_s")
_BY_JOB = ("job", "platform", "runtime_s")


class CsvRow(NamedTuple):
    """One line of a table, with its line number in the file."""

    number: int
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the line's cells, joined by commas, for messages."""
        return ",".join(self.cells)


def read_table(
    file: Path, lines: Sequence[str] | None = None, read: ReadJobs | None = None
) -> tuple[tuple[str, ...], list[CsvRow]]:
    """Return a table's header and rows, without empty lines. Raises DocumentError naming the line.

    ``lines``: the file's lines, where they have been read already. ``read``: counts lines with too
    many or too few columns, which are then skipped.
    """
    reader = csv.reader(lines_of(file) if lines is None else lines)
    try:
        lines_read = [(reader.line_num, tuple(cell.strip() for cell in row)) for row in reader]
    except csv.Error as error:
        raise DocumentError(
            file, f"cannot be read: {error}", key=f"line {reader.line_num}"
        ) from None
    full = [CsvRow(*numbered_cells) for numbered_cells in lines_read if any(numbered_cells[1])]
    header = tuple(name.removeprefix("\ufeff") for name in full[0].cells) if full else ()
    rows = []
    for row in full[1:]:
        if len(row.cells) == len(header):
            rows.append(row)
            continue
        why = f"has {len(row.cells)} columns, the first line {len(header)}"
        if read is None:
            raise DocumentError(file, why, key=f"line {row.number}")
        read.refuse(row.number, row.text, why)
    return header, rows


TRUE, PREDICTED = "seconds@", "predicted@"


@dataclass(frozen=True)
class JobTable:
    """A trace with true run times by platform, and the predicted run times."""

    trace: Trace
    """The jobs, without their own run times, which depend on where each job is assumed to run."""
    predicted: Mapping[str, Floats]
    """Predicted seconds by platform, an array over jobs; true times where a platform has no
    predictions."""


def read_job_table(
    path: Path, lines: Sequence[str] | None = None, read: ReadJobs | None = None
) -> JobTable:
    """Read a table of jobs; unreadable lines are skipped and counted in ``read``.

    Raises DocumentError where the first line is not the header of such a table, or no job is left.
    """
    read = ReadJobs() if read is None else read
    header, rows = read_table(path, lines, read)
    _check_header(header, path)
    numeric = [(at, name) for at, name in enumerate(header) if name not in _WORDS]
    numbers, jobs = [], []
    for row in rows:
        try:
            numbers.append([_number(name, row.cells[at]) for at, name in numeric])
        except Unreadable as error:
            read.refuse(row.number, row.text, error)
        else:
            jobs.append(row)
    if not jobs:
        first = f" that can be read, first {read.examples[0]}" if read.examples else ""
        raise DocumentError(path, f"has no jobs{first}")
    columns = dict(zip([name for _, name in numeric], np.array(numbers).T, strict=True))
    words = {
        name: [row.cells[at] for row in jobs] for at, name in enumerate(header) if name in _WORDS
    }
    return _job_table(columns, words)


def _job_table(columns: Mapping[str, Floats], words: Mapping[str, Sequence[str]]) -> JobTable:
    submit = columns["submit_s"]
    order = np.argsort(submit, kind="stable")

    def by_platform(prefix: str) -> dict[str, Floats]:
        return {
            name.removeprefix(prefix): column[order]
            for name, column in columns.items()
            if name.startswith(prefix)
        }

    def counts(name: str) -> np.ndarray:
        return columns.get(name, np.full(len(submit), _DEFAULTS[name])).astype(np.int64)

    true, predicted = by_platform(TRUE), by_platform(PREDICTED)
    nobody = [""] * len(submit)
    users, user = numbered(words.get("user", nobody))
    queues, queue = numbered(words.get("partition", nobody))
    trace = trace_of(
        submit,
        np.full(len(submit), np.nan),
        counts("cores"),
        limit_s=columns.get("limit_s", np.full(len(submit), math.nan)),
        nodes=counts("nodes"),
        gpus=counts("gpus"),
        user=user,
        queue=queue,
        queues=queues,
    )
    return JobTable(replace(trace, users=users, runtime_on=true), {**true, **predicted})


def _number(name: str, text: str) -> float:
    """Return the number in one cell of a column. Raises Unreadable."""
    if not text:
        if name == "submit_s":
            raise Unreadable("submit_s is empty")
        return _DEFAULTS.get(name, math.nan)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    least = -math.inf if name == "submit_s" else 0.0
    if not (least <= value < math.inf):
        raise Unreadable(f"{name} is no such number")
    return value


def _check_header(header: Sequence[str], path: Path) -> None:
    if "submit_s" not in header or not any(name.startswith(TRUE) for name in header):
        raise DocumentError(
            path,
            "is no table of jobs",
            key="line 1",
            hint=f"it needs the columns submit_s and {TRUE}PLATFORM, separated by commas",
        )
    for name in header:
        known = name in _PLAIN or (name.startswith((TRUE, PREDICTED)) and not name.endswith("@"))
        if not known or header.count(name) > 1:
            problem = "is there twice" if header.count(name) > 1 else "is not known"
            raise DocumentError(
                path, f"column {name!r} {problem}", key="line 1",
                hint=f"known: {', '.join(_PLAIN)}, {TRUE}PLATFORM, {PREDICTED}PLATFORM",
            )  # fmt: skip


def with_times(trace: Trace, file: Path) -> Trace:
    """Return the trace with run times on other platforms from a table. Raises DocumentError."""
    header, rows = read_table(file)
    if header != _BY_JOB:
        raise DocumentError(
            file, "has another header than a table of run times",
            hint=f"begin it with {','.join(_BY_JOB)}",
        )  # fmt: skip
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        job, platform, seconds = row.cells
        try:
            value = float(seconds)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise DocumentError(file, f"line {row.number}: runtime_s is no number above 0")
        times.setdefault(platform, {})[job] = value
    columns = {
        platform: np.array([values.get(job, np.nan) for job in trace.ids])
        for platform, values in times.items()
    }
    return replace(trace, runtime_on=columns)


def with_own_times(trace: Trace, cluster: Cluster) -> Trace:
    """Return the trace with each job's run time in the partition to which it was submitted.

    Missing run times are taken from the times on the partition's platform.
    """
    own = trace.runtime_s.copy()
    names = {part.name: index for index, part in enumerate(cluster.partitions)}
    for queue, name in enumerate(trace.queues):
        column = None
        if name in names:
            column = trace.runtime_on.get(cluster.platform_of(names[name]))
        if column is not None:
            rows = np.flatnonzero((trace.queue == queue) & np.isnan(own))
            own[rows] = column[rows]
    return replace(trace, runtime_s=own)


TABLE = "table"
READERS = (
    FileReader(TABLE, Purpose.TRACE, (
        FileKind("a table of jobs for a replay", "table", columns=("submit_s",)),
    ), read_job_table),
)  # fmt: skip
