"""History workloads of a site's past jobs: what the submit filter places unpiloted jobs by.

For each user and key (``matching``) a workload with its last runs on the platforms where they ran,
named ``USER/history-NAME-xxxxxx``. One user's jobs never move another's forecasts.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import RunsOn, Target
from berth.plugin.history.matching import keys, plain_name
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord, OutcomeRecord, PastJobRecord
from berth.plugin.workloads import add_workload
from berth.policies.values import Candidate
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.kind import HistoryWorkload, PastRun

PREFIX = "history-"
LEAST_RUNS = 2
"""Before a job is placed by its past."""
RUNS = 50
"""The last ones of a workload."""
KEYS_OF_USER = 100
"""The ones used last."""
_LEARNT = frozenset(("completed", "failed", "timeout", "out-of-memory"))
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.+-]+")


@dataclass
class Group:
    """Jobs of one user that a new job may be matched with."""

    title: str
    runs: deque[PastRun] = field(default_factory=lambda: deque(maxlen=RUNS))


@dataclass(frozen=True, slots=True)
class Made:
    """What became of past jobs."""

    workloads: int
    runs: int
    unplaced: int
    """Jobs in queues that the site file has no single platform for."""


def platforms_by_queue(candidates: Iterable[Candidate]) -> Mapping[str, str]:
    """The platform of queues that have only one."""
    found: dict[str, set[str]] = {}
    for one in candidates:
        found.setdefault(one.queue, set()).add(one.platform)
    return {queue: next(iter(names)) for queue, names in found.items() if len(names) == 1}


def make_workloads(
    store: Store, site: Site, *, forecaster: Forecaster, platforms: Mapping[str, Platform]
) -> Made:
    """Make those of every user anew from the stored jobs, with forecasts and keys."""
    queues = platforms_by_queue(site.candidates)
    count = runs = unplaced = 0
    for user, jobs in _by_user(store):
        groups: OrderedDict[str, Group] = OrderedDict()
        for job in jobs:
            platform = queues.get(job.queue)
            if platform is None or job.state not in _LEARNT:
                unplaced += platform is None
                continue
            for digest in _keys_of(job):
                group = groups.setdefault(digest, Group(_title(job)))
                groups.move_to_end(digest)
                group.runs.append(_run(job, platform))
        for digest in list(groups)[-KEYS_OF_USER:]:
            group = groups[digest]
            if len(group.runs) >= LEAST_RUNS and _store(
                store, user, digest, group, forecaster=forecaster, platforms=platforms
            ):
                count += 1
                runs += len(group.runs)
    return Made(count, runs, unplaced)


def _by_user(store: Store) -> Iterator[tuple[str, list[PastJobRecord]]]:
    """Each user's jobs in order of their ends, with those that Berth decided upon."""
    outcomes: dict[str, list[PastJobRecord]] = {}
    for outcome in store.outcomes.between(0.0, time.time() + 86_400.0):
        job = of_outcome(outcome)
        if job is not None:
            outcomes.setdefault(job.user, []).append(job)
    user, jobs = None, list[PastJobRecord]()
    for job in store.past_jobs.of_users():
        if job.user != user:
            if user is not None:
                yield user, _merged(jobs, outcomes.pop(user, []))
            user, jobs = job.user, []
        jobs.append(job)
    if user is not None:
        yield user, _merged(jobs, outcomes.pop(user, []))
    yield from outcomes.items()


def _merged(jobs: list[PastJobRecord], decided: list[PastJobRecord]) -> list[PastJobRecord]:
    there = {(job.cluster, job.job_id) for job in jobs}
    more = [job for job in decided if (job.cluster, job.job_id) not in there]
    return sorted([*jobs, *more], key=lambda job: (job.end_s, job.cluster, job.job_id))


def of_outcome(outcome: OutcomeRecord) -> PastJobRecord | None:
    """The job of an outcome; None: it did not run, or its user is not known.

    Its name is that of the history workload that placed it, where one did.
    """
    start_s, end_s, elapsed_s = outcome.start_s, outcome.end_s, outcome.elapsed_s
    if not outcome.user or start_s is None or end_s is None or not elapsed_s:
        return None
    return PastJobRecord(
        cluster=outcome.cluster,
        job_id=outcome.job_id,
        user=outcome.user,
        state=outcome.state,
        submit_s=start_s if outcome.submit_s is None else outcome.submit_s,
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        cores=max(outcome.cores or 1, 1),
        nodes=outcome.nodes or 1,
        queue=outcome.queue or "",
        gpus=outcome.gpus,
        time_limit_s=outcome.time_limit_s,
        peak_bytes=outcome.max_rss_bytes,
        peak_source="polled" if outcome.max_rss_bytes else "",
    )


def _keys_of(job: PastJobRecord) -> tuple[str, ...]:
    own = (job.script,) if job.script else ()
    return own + keys(job.user, job.name, job.cores, job.time_limit_s)


def _title(job: PastJobRecord) -> str:
    named = plain_name(job.name).replace("#", "N") or f"{job.cores}-cores"
    return _NOT_A_NAME.sub("-", named).strip("-.")[:40] or "jobs"


def _run(job: PastJobRecord, platform: str) -> PastRun:
    return PastRun(
        platform=platform,
        cores=job.cores,
        gpus=job.gpus or 0,
        runtime_s=max(job.elapsed_s, 1.0),
        peak_memory_bytes=job.peak_bytes,
        job_id=job.job_id,
        ended_s=job.end_s,
    )


def _runs_on(runs: Iterable[PastRun]) -> RunsOn:
    """What its runs used: cores, GPUs, or some of them each."""
    kinds = {Target.CUDA if run.gpus else Target.CPU for run in runs}
    return RunsOn(targets=tuple(sorted(kinds)))


def _store(
    store: Store,
    user: str,
    digest: str,
    group: Group,
    *,
    forecaster: Forecaster,
    platforms: Mapping[str, Platform],
) -> bool:
    """False: the user's name is none that a workload can bear, or nothing can be predicted."""
    name = f"{user}/{PREFIX}{group.title}-{digest[7:13]}"
    try:
        document = HistoryWorkload(
            name=name.replace("/", "."), runs=tuple(group.runs), runs_on=_runs_on(group.runs)
        )
        workload = dataclasses.replace(workload_of(document), name=name)
        add_workload(
            store, workload, forecaster=forecaster, platforms=platforms, owner=user, replace=True
        )
        store.attach_script(FingerprintRecord(digest, name, None, time.time(), user))
    except (DocumentError, UsageError, ValueError):
        return False
    return True
