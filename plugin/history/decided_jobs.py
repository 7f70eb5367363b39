"""Each user's past jobs, merged from the scheduler's accounting and from the outcomes of Berth's
decisions.

An outcome contains no job name. The submit filter stores the job's name, and digests of its script
and arguments, with the decision. A job known from both sources gets its data from the accounting,
and its script and arguments from the decision where the accounting lacks them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from berth.pilot.run import Run
from berth.pilot.usage.record import JOB_END, VALUES, Usage, of_job
from berth.plugin.history.matching import JobDescription
from berth.plugin.scheduler.past_jobs import name_of
from berth.plugin.store import Store

_LONGEST_DIGEST = 80
_DIGESTS = ("script", "arguments", "similar")
RECORDED = frozenset(field.name for field in fields(Run))


def by_user(store: Store) -> Iterator[tuple[str, list[Run]]]:
    """Yield each user with the user's past jobs, in order of their ends."""
    for user, jobs in groupby(store.past_jobs.of_users(followed=True), key=attrgetter("user")):
        yield user, with_usage(store, _described_jobs(store, list(jobs)))


def with_usage(store: Store, jobs: list[Run]) -> list[Run]:
    """Return the jobs with what nodes and monitoring recorded of them in place of what accounting
    sampled."""
    ids: dict[str, list[str]] = {}
    for job in jobs:
        ids.setdefault(job.cluster, []).append(job.job_id)
    recorded = {
        (cluster, job_id): usages
        for cluster, job_ids in ids.items()
        for job_id, usages in store.usages.of_jobs(cluster, job_ids).items()
    }
    if not recorded:
        return jobs
    return [_using(job, recorded.get((job.cluster, job.job_id), ())) for job in jobs]


def _using(job: Run, usages: Sequence[Usage]) -> Run:
    usage = of_job(_of_all_nodes(usages, job.nodes or 1), job.user)
    if usage is None:
        return job
    values: dict[str, Any] = {
        name: getattr(usage, name)
        for name in RECORDED.intersection(VALUES)
        if getattr(usage, name) is not None
    }
    if "peak_bytes" in values:
        exact = any(one.source == JOB_END and one.peak_bytes is not None for one in usages)
        values["peak_source"] = "cgroup" if exact else "polled"
    if "gpu_utilisation" in values:
        values["gpu_utilisation_peak"] = None  # a mean over time is known in its place
    return replace(job, **values)


def _of_all_nodes(usages: Sequence[Usage], nodes: int) -> list[Usage]:
    """Return the usages without those of sources that tell of some of the job's nodes only."""
    reported = {(usage.source, usage.reporter, usage.node) for usage in usages}
    count = Counter((source, reporter) for source, reporter, _ in reported)
    return [
        usage for usage in usages
        if not usage.node or count[usage.source, usage.reporter] >= nodes
    ]  # fmt: skip


def _described_jobs(store: Store, jobs: list[Run]) -> list[Run]:
    """Return the jobs with what their decisions' requests say, where accounting has no script."""
    unknown = {job.decision for job in jobs if job.decision and not job.script}
    if not unknown:
        return jobs
    stored = store.decisions.requests(unknown)
    read = {name: (account, _described(request)) for name, (account, request) in stored.items()}
    return [
        job
        if job.script or job.decision not in read
        else _with_description(job, *read[job.decision])
        for job in jobs
    ]


def _with_description(job: Run, account: str, described: JobDescription | None) -> Run:
    known = replace(job, account=job.account or account)
    if described is None:
        return known
    return replace(
        known,
        name=job.name or name_of(described.name),
        program=job.program or described.program,
        script=described.script,
        arguments=described.arguments,
        similar=described.similar,
    )


def _described(request: str) -> JobDescription | None:
    """Return the description of the job in a decision's request (JSON); None: the request has
    none or is unreadable."""
    try:
        read = json.loads(request).get("job")
        if not isinstance(read, dict):
            return None
        texts = [read.get(key, "") for key in ("name", *_DIGESTS, "program")]
    except (ValueError, AttributeError, RecursionError):
        return None
    if not all(isinstance(text, str) for text in texts):
        return None
    name, *others = texts
    if any(len(text) > _LONGEST_DIGEST for text in others):
        return None
    return JobDescription(name_of(name), *others)
