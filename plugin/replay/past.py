"""Past jobs for a replay or a tune, whatever wrote them: one reader for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from berth.pilot.errors import DocumentError
from berth.plugin.history.files import SWF, lines_of, read_past_jobs
from berth.plugin.history.reading import Read
from berth.plugin.replay.gavel import begins_gavel, read_gavel
from berth.plugin.replay.job_table import begins_job_table, read_job_table
from berth.plugin.replay.times import with_times
from berth.plugin.replay.traces import trace_of_jobs
from berth.plugin.scheduler.registry import SCHEDULERS
from berth.policies.replay import Trace
from berth.policies.replay.columns import Floats

GAVEL = "gavel"
TABLE = "table"
FORMATS = (*SCHEDULERS.names(), SWF, GAVEL, TABLE)


@dataclass(frozen=True)
class PastJobs:
    """A trace, and how it was read."""

    read: Read
    trace: Trace
    predicted: Mapping[str, Floats]
    """By platform [jobs], where the file says what was predicted."""


def past_jobs(
    file: Path,
    format_: str | None = None,
    times: Path | None = None,
    *,
    utc: bool = False,
    strict: bool = False,
) -> PastJobs:
    """By the named format, else by the first line. ``times``: run times elsewhere.

    Raises DocumentError; ``strict``: for a broken line, too.
    """
    lines = lines_of(file)
    first = next((line for line in lines if line.strip()), "")
    read, steps, predicted = Read(), None, {}
    if format_ == TABLE or (format_ is None and begins_job_table(first)):
        table = read_job_table(file, lines)
        jobs, predicted = table.trace, dict(table.predicted)
    elif format_ == GAVEL or (format_ is None and begins_gavel(first)):
        jobs, steps = read_gavel(lines, read)
    else:
        formats = [] if format_ is None else [format_]
        read = read_past_jobs(lines, str(file), "replay", formats, utc=utc)
        jobs = trace_of_jobs(read.jobs.values())
    if strict and read.broken:
        raise DocumentError(
            file, f"{read.broken} lines are broken, first {read.examples[0]}",
            hint="leave out --strict to skip them",
        )  # fmt: skip
    if not len(jobs):
        raise DocumentError(file, "holds no job that ran")
    return PastJobs(read, jobs if times is None else with_times(jobs, times, steps), predicted)
