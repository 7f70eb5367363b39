"""A Trace from past jobs as accounting gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from berth.plugin.store.records import PastJobRecord
from berth.policies.replay.columns import Floats, Ints
from berth.policies.replay.trace import Trace


def trace_of_jobs(jobs: Iterable[PastJobRecord]) -> Trace:
    """Jobs in order of submission; an array's tasks (``12_3``) are one array."""
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
        after=np.full(len(rows), -1, np.int64),
        array=array,
        users=users,
        accounts=accounts,
        queues=queues,
        names=tuple(job.name for job in rows),
        ids=tuple(job.job_id for job in rows),
        start_s=numbers([job.start_s for job in rows]),
    )


def numbered(values: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The different values, and the place of each among them."""
    places: dict[str, int] = {}
    found = [places.setdefault(value, len(places)) for value in values]
    return tuple(places), np.array(found, np.int64)
