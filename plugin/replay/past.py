"""Past jobs for a replay or a tune, whatever wrote them: one reader for both."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from berth.pilot.errors import DocumentError, UsageError
from berth.plugin.history.files import SWF, lines_of, read_past_jobs
from berth.plugin.history.openb import OPENB, begins_openb, read_openb
from berth.plugin.history.reading import Read
from berth.plugin.replay.gavel import begins_gavel, read_gavel
from berth.plugin.replay.job_table import begins_job_table, read_job_table
from berth.plugin.replay.times import with_times
from berth.plugin.replay.traces import trace_of_jobs
from berth.plugin.scheduler.registry import SCHEDULERS
from berth.plugin.site.site import Site
from berth.policies.replay import Trace
from berth.policies.replay.trace import Floats

GAVEL = "gavel"
TABLE = "table"
_DAY_S = 86_400.0
FORMATS = (*SCHEDULERS.names(), SWF, GAVEL, OPENB, TABLE)


@dataclass(frozen=True)
class PastJobs:
    """A trace, and how it was read."""

    source: str
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
        table = read_job_table(file, lines, read)
        jobs, predicted = table.trace, dict(table.predicted)
    elif format_ == GAVEL or (format_ is None and begins_gavel(first)):
        jobs, steps = read_gavel(lines, read)
    elif format_ == OPENB or (format_ is None and begins_openb(first)):
        read = read_openb(lines, "replay", source=str(file))
        jobs = trace_of_jobs(read.jobs.values())
    else:
        formats = [] if format_ is None else [format_]
        read = read_past_jobs(lines, str(file), "replay", formats, utc=utc)
        jobs = trace_of_jobs(read.jobs.values(), read.after, read.array_limits)
    return _checked(PastJobs(str(file), read, jobs, predicted), times, steps, strict=strict)


def asked_jobs(
    site: Site | None, days: float, times: Path | None = None, *, strict: bool = False
) -> PastJobs:
    """What the site's scheduler, or the one that is here, has in its accounting.

    Raises SchedulerError and ToolMissing; UsageError where there is none.
    """
    if site is None:
        here = (kind() for kind in SCHEDULERS.load_all().values())
        scheduler = next((one for one in here if one.is_here()), None)
        if scheduler is None:
            raise UsageError("no scheduler is on this machine", hint="name a TRACE")
    else:
        scheduler = site.open_scheduler()
    read = scheduler.past_jobs("replay", time.time() - days * _DAY_S)
    jobs = trace_of_jobs(read.jobs.values(), read.after, read.array_limits)
    source = f"{scheduler.title}'s accounting"
    return _checked(PastJobs(source, read, jobs, {}), times, None, strict=strict)


_HINT = f"name what wrote it: --format, one of {', '.join(FORMATS)}"


def _nothing(read: Read) -> str:
    """Why there is no job, in words."""
    reasons = []
    if read.broken:
        first = f", first {read.examples[0]}" if read.examples else ""
        reasons.append(f"{read.broken} lines could not be read{first}")
    if read.not_ended:
        reasons.append(f"{read.not_ended} jobs have not run or not ended")
    return f"holds no job that ran{': ' if reasons else ''}{'; '.join(reasons)}"


def _checked(past: PastJobs, times: Path | None, steps: Floats | None, *, strict: bool) -> PastJobs:
    read = past.read
    if strict and read.broken:
        raise DocumentError(
            past.source, f"{read.broken} lines are broken, first {read.examples[0]}",
            hint="leave out --strict to skip them",
        )  # fmt: skip
    if not len(past.trace):
        raise DocumentError(past.source, _nothing(read), hint=_HINT if read.broken else None)
    return past if times is None else replace(past, trace=with_times(past.trace, times, steps))
