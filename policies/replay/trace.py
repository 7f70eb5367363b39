"""The trace that a replay works on: one array per attribute of the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from berth.pilot.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


WEEK_S = 7 * 86_400.0


@dataclass(frozen=True)
class Trace:
    """Jobs of a trace as columns, sorted by submission; times in seconds from any fixed moment.

    Each column is [jobs]; NaN or -1 means unknown.
    """

    submit_s: Floats
    runtime_s: Floats
    """Recorded run time; NaN: unknown, the job is counted but not replayed."""
    limit_s: Floats
    """Requested time limit; NaN: none."""
    cores: Ints
    """Cores, summed over the job's nodes."""
    nodes: Ints
    gpus: Ints
    """GPUs, summed over the job's nodes."""
    memory_bytes: Ints
    """Memory requested per node; 0: not specified."""
    user: Ints
    """Index into ``users``."""
    account: Ints
    queue: Ints
    """Index into ``queues``: the queue that the job was submitted to."""
    after: Ints
    """Row of the job that must end before this job may start; -1: none."""
    array: Ints
    """Number of the job array; -1: none."""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """[jobs] names of the jobs or of their programs; empty: not recorded."""
    ids: tuple[str, ...] = ()
    """[jobs] the scheduler's job ids; empty: jobs are identified by row number."""
    planned_s: Floats | None = None
    """Run time that the backfill assumes; None: the requested time limit."""
    runtime_on: Mapping[str, Floats] = field(default_factory=dict)
    """True run time by platform or candidate; NaN where it is unknown."""
    array_limits: Mapping[int, int] = field(default_factory=dict)
    """For each array's number, most tasks that run at once; absent: no limit."""
    start_s: Floats | None = None
    """The recorded start of the job; None: not recorded."""
    peak_bytes: Floats | None = None
    """Peak memory of the job per node; NaN: not recorded."""

    def __post_init__(self) -> None:
        jobs = len(self.submit_s)
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, np.ndarray) and len(value) != jobs:
                raise ValueError(f"{column.name} has {len(value)} rows and submit_s has {jobs}")
        if jobs and np.any(np.diff(self.submit_s) < 0):
            raise ValueError("jobs are not in order of submission")
        if np.any(self.after >= np.arange(jobs)):
            raise ValueError("a job waits for one that was submitted after it")

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def weeks(self) -> Ints:
        """Return [jobs] the week of submission, counted from 0 at the first submission."""
        if not len(self):
            return np.zeros(0, np.int64)
        return np.asarray((self.submit_s - self.submit_s[0]) // WEEK_S, np.int64)

    def between(self, begin_s: float, end_s: float) -> Trace:
        """Return the jobs submitted in ``[begin_s, end_s)`` seconds after the first submission."""
        if not len(self):
            return self
        since = self.submit_s - self.submit_s[0]
        return self.rows(np.flatnonzero((since >= begin_s) & (since < end_s)))

    def rows(self, chosen: Ints) -> Trace:
        """Return the trace of the chosen rows; a dependency on a job that is left out is
        dropped."""
        place = np.full(len(self) + 1, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        changed = {
            field_.name: value[chosen]
            for field_ in fields(self)
            if isinstance(value := getattr(self, field_.name), np.ndarray)
        }
        changed["after"] = place[self.after[chosen]]
        return replace(
            self,
            **changed,  # type: ignore[arg-type]
            names=tuple(self.names[i] for i in chosen) if self.names else (),
            ids=tuple(self.ids[i] for i in chosen) if self.ids else (),
            runtime_on={name: column[chosen] for name, column in self.runtime_on.items()},
        )


def trace_of(
    submit_s: Floats,
    runtime_s: Floats,
    cores: Ints,
    *,
    limit_s: Floats | None = None,
    nodes: Ints | None = None,
    gpus: Ints | None = None,
    memory_bytes: Ints | None = None,
    user: Ints | None = None,
    queue: Ints | None = None,
    queues: tuple[str, ...] = (),
    after: Ints | None = None,
) -> Trace:
    """Return a trace of these columns, sorted by submission; missing columns get defaults.

    Raises UsageError where a submission time is not finite.
    """
    jobs = len(submit_s)
    order = np.argsort(submit_s, kind="stable")

    def ints(column: Ints | None, default: int) -> Ints:
        filled = np.full(jobs, default, np.int64) if column is None else column
        return np.asarray(filled, np.int64)[order]

    users = ints(user, 0)
    where = ints(queue, 0)
    if not np.all(np.isfinite(submit_s)):
        raise UsageError("a job of the trace has no time of submission")
    place = np.empty(jobs + 1, np.int64)
    place[order] = np.arange(jobs)
    place[jobs] = -1
    waits_for = ints(after, -1)
    return Trace(
        submit_s=np.asarray(submit_s, float)[order],
        runtime_s=np.asarray(runtime_s, float)[order],
        limit_s=np.full(jobs, np.nan) if limit_s is None else np.asarray(limit_s, float)[order],
        cores=ints(cores, 1),
        nodes=ints(nodes, 1),
        gpus=ints(gpus, 0),
        memory_bytes=ints(memory_bytes, 0),
        user=users,
        account=np.zeros(jobs, np.int64),
        queue=where,
        after=np.where(waits_for >= 0, place[waits_for], -1),
        array=np.full(jobs, -1, np.int64),
        users=tuple(f"user{i}" for i in range(int(users.max(initial=-1)) + 1)),
        queues=queues or tuple(f"queue{i}" for i in range(int(where.max(initial=-1)) + 1)),
    )


def numbered(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct values, and for each value its index among them."""
    index_of: dict[str, int] = {}
    numbers = [index_of.setdefault(value, len(index_of)) for value in values]
    return tuple(index_of), np.array(numbers, np.int64)
