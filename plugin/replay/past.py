"""Read past jobs for a replay or a tune: from accounting, tables and published traces."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from berth.pilot.errors import DocumentError
from berth.pilot.run import Run
from berth.plugin.history.files import ends_of_lines, lines_of
from berth.plugin.readers import Purpose, reader_of
from berth.plugin.replay.tables import TABLE, JobTable, with_times
from berth.plugin.scheduler.past_jobs import ENDED, SINGLETON, ReadJobs, why_none
from berth.plugin.scheduler.registry import site_scheduler
from berth.plugin.site.site import Site
from berth.policies.replay.trace import Floats, Ints, Trace, numbered

_DAY_S = 86_400.0
_READ = (Purpose.PAST_JOBS, Purpose.TRACE)
STARVED = "out-of-memory"


@dataclass(frozen=True)
class PastTrace:
    """A trace of past jobs, with its source and the counts made while reading it."""

    source: str
    read: ReadJobs
    trace: Trace
    predicted: Mapping[str, Floats]
    """Predicted seconds by platform, an array over jobs, where the file has predictions."""


def past_jobs(
    file: Path,
    times: Path | None = None,
    *,
    utc: bool = False,
) -> PastTrace:
    """Read past jobs from a file, in the format that its content shows.

    ``times``: a file of run times on other platforms.
    Raises DocumentError.
    """
    lines = lines_of(file)
    reader = reader_of(ends_of_lines(lines), file, *_READ)
    read, predicted = ReadJobs(), {}
    if reader.name == TABLE:
        table: JobTable = reader.read(file, lines, read)
        jobs, predicted = table.trace, dict(table.predicted)
    else:
        read = reader.read(lines, "replay", source=str(file), utc=utc)
        jobs = trace_of_jobs(read.jobs.values(), read.after, read.array_limits)
    return _checked(PastTrace(str(file), read, jobs, predicted), times)


def asked_jobs(site: Site | None, days: float, times: Path | None = None) -> PastTrace:
    """Read the jobs of the last ``days`` from the accounting of the site's, or the installed,
    scheduler.

    Raises SchedulerError and ToolMissing; UsageError where no scheduler is installed.
    """
    scheduler = site_scheduler(site)
    read = scheduler.past_jobs("replay", time.time() - days * _DAY_S)
    jobs = trace_of_jobs(read.jobs.values(), read.after, read.array_limits)
    source = f"{scheduler.title}'s accounting"
    return _checked(PastTrace(source, read, jobs, {}), times)


def _checked(past: PastTrace, times: Path | None) -> PastTrace:
    read = past.read
    if not len(past.trace):
        raise DocumentError(past.source, why_none(read), hint=ENDED)
    return past if times is None else replace(past, trace=with_times(past.trace, times))


def trace_of_jobs(
    jobs: Iterable[Run],
    after: Mapping[str, Sequence[str]] | None = None,
    array_limits: Mapping[str, int] | None = None,
) -> Trace:
    """Return a trace of past jobs, sorted by submission; an array's tasks (``12_3``) form one
    array.

    ``after``: dependencies, as in ``ReadJobs``. Of a job's several dependencies, the one that
    really ended last counts; jobs missing from the trace count as ended.
    """
    rows = sorted(jobs, key=lambda job: (job.submit_s or 0.0, job.start_s or 0.0))
    users, user = numbered([job.user for job in rows])
    accounts, account = numbered([job.account for job in rows])
    queues, queue = numbered([job.partition for job in rows])
    heads = [head if (head := job.job_id.partition("_")[0]) != job.job_id else "" for job in rows]
    names, array = numbered(heads)
    array = np.where(array == names.index(""), -1, array) if "" in names else array

    def numbers(values: Sequence[float | None]) -> Floats:
        return np.array([np.nan if v is None else v for v in values], float)

    def whole(values: Sequence[int | None]) -> Ints:
        return np.array([v or 0 for v in values], np.int64)

    return Trace(
        submit_s=numbers([job.submit_s for job in rows]),
        runtime_s=numbers([job.elapsed_s for job in rows]),
        limit_s=numbers([job.time_limit_s for job in rows]),
        cores=whole([job.cores for job in rows]),
        nodes=whole([job.nodes or 1 for job in rows]),
        gpus=whole([job.gpus for job in rows]),
        memory_bytes=whole([job.request_bytes for job in rows]),
        user=user,
        account=account,
        queue=queue,
        after=_waits_for(rows, heads, after or {}),
        array=array,
        users=users,
        accounts=accounts,
        queues=queues,
        names=tuple(job.name for job in rows),
        ids=tuple(job.job_id for job in rows),
        start_s=numbers([job.start_s for job in rows]),
        peak_bytes=numbers([_need(job) for job in rows]),
        array_limits={
            names.index(head): most for head, most in (array_limits or {}).items() if head in names
        },
    )


def _need(job: Run) -> float | None:
    """Return the memory in bytes per node that the job needed; None: not recorded.

    A killed job needed more than it requested. Otherwise the need is at most the request, because
    sites let jobs use more than they request.
    """
    asked, peak = job.request_bytes, job.peak_bytes
    if job.state == STARVED:
        return None if asked is None else max(peak or 0, asked + 1)
    return peak if peak is None or asked is None else min(peak, asked)


def _waits_for(
    rows: Sequence[Run], heads: Sequence[str], after: Mapping[str, Sequence[str]]
) -> Ints:
    """Return, for each job, the row of the job it depends on; -1: none."""
    parent_of = np.full(len(rows), -1, np.int64)
    if not after:
        return parent_of
    members: dict[str, list[int]] = {}
    before: dict[tuple[str, str], int] = {}
    for row, job in enumerate(rows):
        members.setdefault(job.job_id, []).append(row)
        if heads[row]:
            members.setdefault(heads[row], []).append(row)
    for row, job in enumerate(rows):
        named = after.get(job.job_id, ())
        parents = [p for name in named for p in members.get(name, ()) if p < row]
        own = (job.user, job.name)
        if SINGLETON in named and own in before:
            parents.append(before[own])
        if parents:
            parent_of[row] = max(parents, key=lambda p: rows[p].end_s or 0.0)
        before[own] = max(row, before.get(own, row), key=lambda p: rows[p].end_s or 0.0)
    return parent_of
