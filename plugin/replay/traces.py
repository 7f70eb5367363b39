"""A Trace from past jobs as accounting gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from berth.plugin.history.reading import SINGLETON
from berth.plugin.store.records import PastJobRecord
from berth.policies.replay.trace import Floats, Ints, Trace

STARVED = "out-of-memory"


def trace_of_jobs(
    jobs: Iterable[PastJobRecord],
    after: Mapping[str, Sequence[str]] | None = None,
    array_limits: Mapping[str, int] | None = None,
) -> Trace:
    """Jobs in order of submission; an array's tasks (``12_3``) are one array.

    ``after``: as ``Read`` has it. Of several jobs that one waits for, the one that ended last in
    fact counts; those that are not here count as ended.
    """
    rows = sorted(jobs, key=lambda job: (job.submit_s, job.start_s))
    users, user = numbered([job.user for job in rows])
    accounts, account = numbered([job.account for job in rows])
    queues, queue = numbered([job.queue for job in rows])
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
        nodes=whole([job.nodes for job in rows]),
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


def _need(job: PastJobRecord) -> float | None:
    """Memory on a node without which the job would have been killed; None: not recorded.

    Not above what it had where it was not killed: the site lets jobs take more than they ask for.
    """
    asked, peak = job.request_bytes, job.peak_bytes
    if job.state == STARVED:
        return None if asked is None else max(peak or 0, asked + 1)
    return peak if peak is None or asked is None else min(peak, asked)


def _waits_for(
    rows: Sequence[PastJobRecord], heads: Sequence[str], after: Mapping[str, Sequence[str]]
) -> Ints:
    """[jobs] row of the job that each waits for; -1: none."""
    found = np.full(len(rows), -1, np.int64)
    if not after:
        return found
    members: dict[str, list[int]] = {}
    before: dict[tuple[str, str], int] = {}
    for row, job in enumerate(rows):
        members.setdefault(job.job_id, []).append(row)
        if heads[row]:
            members.setdefault(heads[row], []).append(row)
    for row, job in enumerate(rows):
        named = after.get(job.job_id, ())
        parents = [p for one in named for p in members.get(one, ()) if p < row]
        own = (job.user, job.name)
        if SINGLETON in named and own in before:
            parents.append(before[own])
        if parents:
            found[row] = max(parents, key=lambda p: rows[p].end_s)
        before[own] = max(row, before.get(own, row), key=lambda p: rows[p].end_s)
    return found


def numbered(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The different values, and the place of each among them."""
    places: dict[str, int] = {}
    found = [places.setdefault(value, len(places)) for value in values]
    return tuple(places), np.array(found, np.int64)
