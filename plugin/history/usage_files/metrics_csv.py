"""Reads a CSV of (job, metric, value): for monitoring that Berth has no reader of its own for.

The first line names the columns ``job``, ``metric`` and ``value``, in any order. Metrics have the
names in ``METRICS``; a value of a utilisation is a share, or a per cent in a metric that ends in
``_percent``. Other metrics are counted and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from berth.pilot.errors import DocumentError
from berth.pilot.importers.recogniser import FileKind, FileReader
from berth.pilot.usage.record import Usage
from berth.plugin.history.usage_files.reading import AMOUNTS, SHARES, ReadUsages
from berth.plugin.readers import Purpose
from berth.plugin.scheduler.past_jobs import Unreadable, cells_of, name_of

SOURCE = "csv"
NEEDED = ("job", "metric", "value")
METRICS = {name: (name, 1.0) for name in (*AMOUNTS, *SHARES)} | {
    f"{name}_percent": (name, 0.01) for name in SHARES
}
"""The value of a usage that each metric gives, and the factor to its unit."""
UNKNOWN = "values are of a metric that Berth does not use (docs/history.md lists them)"
_LONGEST_ID = 64


def read_metrics(
    lines: Sequence[str], cluster: str, *, source: str, received_s: float
) -> ReadUsages:
    """Return one usage for each job of the file; of a metric that a job has twice the largest
    value counts. Raises DocumentError."""
    rows = [(at, cells_of(line)) for at, line in enumerate(lines, 1) if line.strip()]
    header = rows[0][1] if rows else []
    if not set(NEEDED) <= set(header):
        raise DocumentError(source, f"needs a first line with the columns {','.join(NEEDED)}")
    columns = [header.index(name) for name in NEEDED]
    read, jobs = ReadUsages(), dict[str, Usage]()
    for at, row in rows[1:]:
        try:
            if len(row) != len(header):
                raise Unreadable(f"{len(row)} fields where the header has {len(header)}")
            job_id, metric, text = (row[column] for column in columns)
            _take(read, jobs, Usage(cluster, name_of(job_id)[:_LONGEST_ID], SOURCE), metric, text)
        except Unreadable as error:
            read.refuse(f"line {at}", ",".join(row), error)
    for usage in jobs.values():
        read.add(replace(usage, received_s=received_s))
    return read


def _take(read: ReadUsages, jobs: dict[str, Usage], of_job: Usage, metric: str, text: str) -> None:
    if not of_job.job_id:
        raise Unreadable("no job")
    try:
        value = float(text)
    except ValueError:
        raise Unreadable("the value is no number") from None
    if metric not in METRICS:
        read.left_out[UNKNOWN] += 1
        return
    name, factor = METRICS[metric]
    usage = jobs.setdefault(of_job.job_id, of_job)
    known = getattr(usage, name)
    largest = value * factor if known is None else max(known, value * factor)
    values: dict[str, Any] = {name: largest}
    jobs[of_job.job_id] = replace(usage, **values)


READERS = (
    FileReader("csv", Purpose.USAGE, (
        FileKind("a table of what jobs used (CSV: job,metric,value)", "usage", columns=NEEDED),
    ), lambda file, lines, cluster, *, received_s, **_: read_metrics(
        lines, cluster, source=str(file), received_s=received_s)),
)  # fmt: skip
