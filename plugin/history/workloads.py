"""Makes history workloads from a site's past jobs: the submit filter uses them to place jobs that
were never profiled.

Each user and match key (``matching``) gets a workload named ``USER/history-NAME-xxxxxx``. It holds
the last runs on the platforms where they ran, and the predicted time of the next run
(``run_times``). One user's jobs never change another user's forecasts, unless the site trusts all
users.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from berth.pilot.errors import DocumentError, UsageError
from berth.pilot.platform import Platform
from berth.pilot.profile import RunsOn, Target
from berth.pilot.progress import report, steps
from berth.pilot.run import Run
from berth.plugin.history.decided_jobs import by_user
from berth.plugin.history.matching import Match, known_name, match_keys
from berth.plugin.history.run_times import JOBS, PlacedJob, RunTimes
from berth.plugin.history.seen_nodes import node_kinds
from berth.plugin.history.site_ratios import SiteRatios
from berth.plugin.scheduler.node_kinds import NodeKinds, UnknownPlatform
from berth.plugin.site.site import Site
from berth.plugin.store import Store
from berth.plugin.store.records import FingerprintRecord
from berth.plugin.workloads.filing import add_workload
from berth.predictor.core.forecaster import Forecaster
from berth.predictor.core.workload import workload_of
from berth.predictor.families.history.workload import HistoryWorkload, PastRun

PREFIX = "history-"
LEAST_RUNS = 2
"""Least number of past runs from which a history workload is made."""
LEAST_FAILURES = 5
"""Least number of failed jobs on a platform, with none that completed, for keeping the program
away: with one in two jobs failing for reasons of its own that is seen by chance 3 times in 100."""
RUNS = 50
"""Maximum number of runs in a workload, the newest ones."""
KEYS_OF_USER = 100
"""Maximum number of workloads per user, the most recently used ones."""
GROUPS = 4_000
"""Maximum number of groups held while a user's jobs are read, the most recently used ones: a
user may give new arguments each time."""
_LEARNT = frozenset(("completed", "failed", "timeout", "out-of-memory"))
_COMPARED, _LOOKED_AT = "past jobs compared", "past jobs looked at"
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.+-]+")


@dataclass
class MatchedJobs:
    """Past jobs with the same match key, with which a new job may be matched."""

    title: str
    match: Match
    jobs: deque[PlacedJob] = field(default_factory=lambda: deque(maxlen=RUNS))


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """Numbers of history workloads made, of their runs, and of jobs left out."""

    workloads: int
    runs: int
    unplaced: Mapping[UnknownPlatform, int]
    """Number of jobs whose platform is not known, by reason."""
    knows_nodes: bool = True
    """Whether the scheduler has told of any node of the site."""


def make_workloads(
    store: Store,
    site: Site,
    *,
    forecaster: Forecaster,
    platforms: Mapping[str, Platform],
    kinds: NodeKinds | None = None,
) -> HistorySummary:
    """Make every user's history workloads from the stored past jobs, with their forecasts and match
    keys.

    Where the site trusts all users (``learning.everybody``), predictions are learnt from all users'
    jobs, and jobs are also matched by account and name. ``kinds``: the site's nodes; None: those in
    the store.
    """
    kinds = node_kinds(store, site) if kinds is None else kinds
    writer = _writer(store, site, forecaster, platforms)
    unplaced: Counter[UnknownPlatform] = Counter()
    every, done = store.past_jobs.count(), 0
    for user, jobs in by_user(store):
        report(_COMPARED, min(done, every - 1), every)
        done += len(jobs)
        writer.ratios.add(user, _learnt(jobs, kinds, unplaced))
    report(_COMPARED, every, every)
    everybody: list[PlacedJob] = []
    done = 0
    for user, jobs in by_user(store):
        report(_LOOKED_AT, min(done, every - 1), every)
        done += len(jobs)
        learnt = _learnt(jobs, kinds)
        if site.learning.everybody:
            everybody += learnt
            if len(everybody) > 4 * JOBS:
                everybody = _last(everybody)
        else:
            writer.write_workloads(user, _groups(learnt), RunTimes(learnt))
    report(_LOOKED_AT, every, every)
    if everybody:
        everybody = _last(everybody)
        times = RunTimes(everybody)
        users: dict[str, list[PlacedJob]] = {}
        for placed_job in everybody:
            users.setdefault(placed_job.job.user, []).append(placed_job)
        for user, learnt in steps("users predicted", list(users.items())):
            writer.write_workloads(user, _groups(learnt), times)
        writer.write_workloads("", _groups(everybody, accounts=True), times)
    writer.write_unknown_programs()
    return HistorySummary(writer.workloads, writer.runs, unplaced, knows_nodes=bool(kinds.nodes))


def _writer(
    store: Store, site: Site, forecaster: Forecaster, platforms: Mapping[str, Platform]
) -> HistoryWriter:
    at_site = dict.fromkeys(candidate.platform for candidate in site.candidates)
    now_s = time.time()
    ratios = SiteRatios(platforms, at_site=at_site, everybody=site.learning.everybody, now_s=now_s)
    return HistoryWriter(store, forecaster, platforms, now_s, ratios)


def add_unknown_programs(
    store: Store, site: Site, *, forecaster: Forecaster, platforms: Mapping[str, Platform]
) -> None:
    """Store the workloads that stand for unknown programs at a site without past jobs: benchmark
    kernels alone tell how much faster one kind of node is than another."""
    _writer(store, site, forecaster, platforms).write_unknown_programs()


def _learnt(
    jobs: Iterable[Run], kinds: NodeKinds, unplaced: Counter[UnknownPlatform] | None = None
) -> list[PlacedJob]:
    """Return the jobs that history learns from, with their platforms; ``unplaced`` counts the jobs
    without a known platform, by reason."""
    learnt = []
    for job in jobs:
        platform = kinds.platform_of(job)
        if isinstance(platform, UnknownPlatform):
            if unplaced is not None:
                unplaced[platform] += 1
        elif job.state in _LEARNT:
            learnt.append(PlacedJob(job, platform))
    return learnt


def _last(jobs: list[PlacedJob]) -> list[PlacedJob]:
    """Return the last ``2 * JOBS`` jobs, in order of their ends."""
    jobs.sort(key=lambda placed: (placed.job.end_s, placed.job.cluster, placed.job.job_id))
    return jobs[-2 * JOBS :]


def _groups(jobs: Iterable[PlacedJob], *, accounts: bool = False) -> list[tuple[str, MatchedJobs]]:
    """Return one user's jobs grouped by match key, the most recently used last; with
    ``accounts``: all users' jobs by account and name."""
    groups: OrderedDict[str, MatchedJobs] = OrderedDict()
    for placed in jobs:
        for match, digest in _keys_of(placed.job):
            if accounts != (match is Match.ACCOUNT):
                continue
            group = groups.setdefault(digest, MatchedJobs(_title(placed.job, match), match))
            groups.move_to_end(digest)
            group.jobs.append(placed)
            if len(groups) > GROUPS:
                groups.popitem(last=False)
    return [(key, placed) for key, placed in groups.items() if len(placed.jobs) >= LEAST_RUNS]


def _keys_of(job: Run) -> Iterator[tuple[Match, str]]:
    return match_keys(job.user, job.cores or 1, job.time_limit_s, job, account=job.account)


def stored_name_of(store: Store, job: Run) -> str | None:
    """Return the name of the stored workload of all of a user's jobs like this one; None: there is
    none."""
    keys = [key for key in _keys_of(job) if key[0] is not Match.ACCOUNT]
    names = (_name(f"{job.user}/", _title(job, match), digest) for match, digest in reversed(keys))
    return next((name for name in names if store.workload(name) is not None), None)


def _name(owner: str, title: str, digest: str) -> str:
    return f"{owner}{PREFIX}{title}-{digest[7:13]}"


def _program(job: Run) -> str:
    """Return the part of a workload's name by which a person recognises the job's program."""
    named = known_name(job.name, job.program).replace("#", "N") or f"{job.cores or 1}-cores"
    return _NOT_A_NAME.sub("-", named).strip("-.")[:40] or "jobs"


def _title(job: Run, match: Match) -> str:
    """Return the program's name, with the time limit where only jobs of that limit match."""
    title = _program(job)
    if job.time_limit_s and match in (Match.LIMIT, Match.SHAPE):
        hours, minutes = divmod(round(job.time_limit_s / 60.0), 60)
        title += f"-limit-{hours}h{minutes or ''}"
    return title


def run_of(placed: PlacedJob) -> PastRun:
    """Return a past job as a run of a history workload; its memory is that of all its nodes and
    GPUs together (bytes)."""
    job = placed.job
    nodes, gpus = job.nodes or 1, max(job.gpus or 0, 1)
    return PastRun(
        platform=placed.platform,
        cores=job.cores or 1,
        gpus=job.gpus or 0,
        runtime_s=max(job.elapsed_s, 1.0),
        peak_host_bytes=None if job.peak_bytes is None else job.peak_bytes * nodes,
        granted_host_bytes=None if job.request_bytes is None else job.request_bytes * nodes,
        peak_gpu_bytes=None if job.gpu_peak_bytes is None else job.gpu_peak_bytes * gpus,
        gpu_utilisation=_gpu_utilisation(job),
        gpu_memory_utilisation=job.gpu_memory_utilisation if job.gpus else None,
        ended_well=placed.ended_well,
        job_id=job.job_id,
        ended_s=job.end_s,
    )


def _gpu_utilisation(job: Run) -> float | None:
    """Return the job's GPU utilisation: the mean over its time, else the largest that the scheduler
    polled, because its own means are over tasks and not over time."""
    if not job.gpus:
        return None
    peak = job.gpu_utilisation_peak
    return job.gpu_utilisation if peak is None else peak


def _runs_on(runs: Sequence[PastRun], platforms: Mapping[str, Platform]) -> RunsOn:
    """Return the hardware that the runs used: CPU cores, GPUs, or both, and the architecture of the
    newest."""
    targets: set[Target] = set()
    for run in runs:
        platform = platforms.get(run.platform)
        of_gpu = () if platform is None or not platform.is_gpu else platform.targets
        targets.update((of_gpu or (Target.CUDA,)) if run.gpus else (Target.CPU,))
    newest = platforms.get(runs[-1].platform)
    architecture = RunsOn().architecture if newest is None else newest.architecture
    return RunsOn(targets=tuple(sorted(targets)), architecture=architecture)


def _fails_on(jobs: Iterable[PlacedJob]) -> dict[str, str]:
    """Return the platforms where enough of a program's jobs ran and all failed, while others
    completed elsewhere, each with a sentence that says so."""
    completed = {placed.platform for placed in jobs if placed.job.state == "completed"}
    failed = Counter(placed.platform for placed in jobs if placed.job.state == "failed")
    if not completed:
        return {}
    return {
        name: f"all {count} of its jobs there failed, and others completed elsewhere"
        for name, count in failed.items()
        if count >= LEAST_FAILURES and name not in completed
    }


@dataclass
class HistoryWriter:
    """Writes history workloads into a store, with their forecasts and match keys."""

    store: Store
    forecaster: Forecaster
    platforms: Mapping[str, Platform]
    now_s: float
    ratios: SiteRatios
    workloads: int = 0
    runs: int = 0

    def write_workloads(
        self, user: str, groups: Sequence[tuple[str, MatchedJobs]], times: RunTimes
    ) -> None:
        """Store the user's most recently used workloads; the empty user stands for workloads
        that all users share."""
        for digest, group in groups[-KEYS_OF_USER:]:
            runs = tuple(run_of(placed) for placed in group.jobs)
            owner = f"{user}/" if user else ""
            name = _name(owner, group.title, digest)
            try:
                document = HistoryWorkload(
                    name=name.replace("/", "."),
                    runs=runs,
                    runs_on=_runs_on(runs, self.platforms),
                    predicted=tuple(times.of_match(group.match, group.jobs, self.now_s)),
                    ratios=self.ratios.of_program(user, group.jobs),
                    fails_on=_fails_on(group.jobs),
                )
            except ValueError:
                continue
            if self._put(document, name, user, digest):
                self.workloads += 1
                self.runs += len(runs)

    def write_unknown_programs(self) -> None:
        """Store the workloads that stand for jobs of programs without past jobs."""
        for document in self.ratios.of_unknown_programs():
            self._put(document, document.name, "")

    def _put(self, document: HistoryWorkload, name: str, user: str, digest: str = "") -> bool:
        """Store one workload, with a match key if it has one; return False where the user's name is
        not allowed in a workload's name, or no forecast is possible."""
        try:
            workload = dataclasses.replace(workload_of(document), name=name)
            add_workload(
                self.store, workload, forecaster=self.forecaster, platforms=self.platforms,
                owner=user, replace=True,
            )  # fmt: skip
            if digest:
                self.store.attach_script(FingerprintRecord(digest, name, None, self.now_s, user))
        except (DocumentError, UsageError, ValueError):
            return False
        return True
