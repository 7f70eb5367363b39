"""Each user's past jobs, merged from the scheduler's accounting and from the outcomes of Berth's
decisions.

An outcome contains no job name. The submit filter stores the job's name, and digests of its script
and arguments, with the decision. A job known from both sources gets its data from the accounting,
and its script and arguments from the decision where the accounting lacks them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from berth.pilot.run import Run
from berth.pilot.usage.record import JOB_END, VALUES, Usage, of_job
from berth.plugin.history.matching import JobDescription
from berth.plugin.scheduler.past_jobs import name_of
from berth.plugin.store import Store
from berth.plugin.store.records import OutcomeRecord

_LONGEST_DIGEST = 80
_DIGESTS = ("script", "arguments", "similar")
RECORDED = frozenset(field.name for field in fields(Run))
_SAME = RECORDED.intersection(field.name for field in fields(OutcomeRecord)).difference(
    ("submit_s", "start_s", "end_s", "elapsed_s", "cores", "nodes", "queue")
)
"""Values of an outcome that are those of the past job as they are."""


def by_user(store: Store) -> Iterator[tuple[str, list[Run]]]:
    """Yield each user with the user's past jobs, in order of their ends."""
    outcomes: dict[str, list[OutcomeRecord]] = {}
    for outcome in store.outcomes.between(0.0, time.time() + 86_400.0):
        if outcome.user:
            outcomes.setdefault(outcome.user, []).append(outcome)
    user, jobs = None, list[Run]()
    for job in store.past_jobs.of_users():
        if job.user != user:
            if user is not None:
                yield user, with_usage(store, _merged(store, jobs, outcomes.pop(user, [])))
            user, jobs = job.user, []
        jobs.append(job)
    if user is not None:
        yield user, with_usage(store, _merged(store, jobs, outcomes.pop(user, [])))
    for user, decided in outcomes.items():
        merged = with_usage(store, _merged(store, [], decided))
        if merged:
            yield user, merged


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


def of_outcome(
    outcome: OutcomeRecord, described: JobDescription | None = None, account: str = ""
) -> Run | None:
    """Return the past job that an outcome describes; None: the job did not run, or its user is
    unknown.

    ``described``: the job's name, script and arguments from the decision.
    """
    start_s, end_s, elapsed_s = outcome.start_s, outcome.end_s, outcome.elapsed_s
    if not outcome.user or start_s is None or end_s is None or not elapsed_s:
        return None
    same: dict[str, Any] = {name: getattr(outcome, name) for name in _SAME}
    job = Run(
        **same,
        submit_s=start_s if outcome.submit_s is None else outcome.submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(outcome.cores or 1, 1),
        nodes=outcome.nodes or 1,
        account=account,
        partition=outcome.queue or "",
        peak_bytes=outcome.max_rss_bytes,
        peak_source="polled" if outcome.max_rss_bytes else "",
    )
    return job if described is None else _with_description(job, described)


def description_of(job: Run) -> JobDescription:
    """Return the job's name and the digests of its script and arguments; unknown ones are empty."""
    return JobDescription(job.name, job.script, job.arguments, job.similar, job.program)


def _merged(store: Store, jobs: list[Run], decided: Sequence[OutcomeRecord]) -> list[Run]:
    if not decided:
        return jobs
    stored = store.decisions.requests({outcome.decision for outcome in decided if outcome.decision})
    descriptions = {name: _described(request) for name, (_, request) in stored.items()}
    seen = {
        (outcome.cluster, outcome.job_id): descriptions.get(outcome.decision or "")
        for outcome in decided
    }
    accounted = {(job.cluster, job.job_id) for job in jobs}
    merged = []
    for job in jobs:
        described = seen.get((job.cluster, job.job_id))
        merged.append(job if described is None or job.script else _with_description(job, described))
    for outcome in decided:
        if (outcome.cluster, outcome.job_id) not in accounted:
            account, _ = stored.get(outcome.decision or "", ("", ""))
            decided_job = of_outcome(outcome, descriptions.get(outcome.decision or ""), account)
            if decided_job is not None:
                merged.append(decided_job)
    return sorted(merged, key=lambda job: (job.end_s, job.cluster, job.job_id))


def _with_description(job: Run, described: JobDescription) -> Run:
    return replace(
        job,
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
