"""Learns the memory that past jobs needed, by the keys with which a new job is matched."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from berth.pilot.run import Run
from berth.plugin.history.advice import LEAST_RUNS, MEMORY_MARGIN, POLLED_MARGIN
from berth.plugin.history.decided_jobs import by_user
from berth.plugin.history.matching import Match, is_unknown_program, match_keys, workload_key
from berth.plugin.history.workloads import GROUPS, KEYS_OF_USER
from berth.plugin.store import Store
from berth.plugin.store.records import MemoryNeedRecord, PlacedRun

_RAN = frozenset(("completed", "failed", "timeout", "out-of-memory"))


@dataclass(slots=True)
class _KnownPeaks:
    """Memory peaks of the jobs with one match key."""

    largest: int = 0
    runs: int = 0
    polled: bool = False
    killed: int = 0
    """Number of jobs that ended out of memory: they needed more than their recorded peak."""

    def add(self, peak_bytes: int | None, source: str, state: str) -> None:
        if state == "out-of-memory":
            self.killed += 1
        if peak_bytes:
            self.largest = max(self.largest, peak_bytes)
            self.runs += state != "out-of-memory"
            self.polled |= source != "cgroup"


def learn_needs(store: Store, now_s: float) -> int:
    """Update every user's memory needs from past jobs and outcomes; return how many were stored."""
    count = 0
    for user, jobs in by_user(store):
        needs = list(needs_of(user, jobs, now_s))
        store.memory_needs.put(needs)
        count += len(needs)
    needs = list(_of_profiles(store.outcomes.between(0.0, now_s + 86_400.0), now_s))
    store.memory_needs.put(needs)
    return count + len(needs)


def needs_of(user: str, jobs: Iterable[Run], now_s: float) -> Iterator[MemoryNeedRecord]:
    """Yield one user's memory needs by match key, from jobs in order of their ends."""
    groups: OrderedDict[str, _KnownPeaks] = OrderedDict()
    for job in jobs:
        if job.state not in _RAN:
            continue
        for match, digest in match_keys(job.user, job.cores or 1, job.time_limit_s, job):
            if match is Match.LIMIT:
                continue  # memory does not depend on the time limit
            groups.setdefault(digest, _KnownPeaks()).add(job.peak_bytes, job.peak_source, job.state)
            groups.move_to_end(digest)
            if len(groups) > GROUPS:
                groups.popitem(last=False)
    known = [(digest, peaks) for digest, peaks in groups.items() if peaks.runs >= LEAST_RUNS]
    for digest, peaks in known[-KEYS_OF_USER:]:
        yield _record(digest, user, peaks, now_s)


def _of_profiles(outcomes: Iterable[PlacedRun], now_s: float) -> Iterator[MemoryNeedRecord]:
    """Yield memory needs by user and workload, from outcomes of jobs that named or were matched
    with the workload."""
    groups: dict[tuple[str, str], _KnownPeaks] = {}
    for outcome in outcomes:
        workload = outcome.workload or ""
        if not workload or is_unknown_program(workload):
            continue
        if outcome.user and outcome.state in _RAN:
            peaks = groups.setdefault((outcome.user, workload), _KnownPeaks())
            peaks.add(outcome.peak_bytes, "polled", outcome.state)
    for (user, workload), peaks in groups.items():
        if peaks.runs >= LEAST_RUNS:
            yield _record(workload_key(user, workload), user, peaks, now_s)


def _record(digest: str, user: str, peaks: _KnownPeaks, now_s: float) -> MemoryNeedRecord:
    margin = POLLED_MARGIN if peaks.polled else MEMORY_MARGIN
    return MemoryNeedRecord(
        digest=digest,
        user=user,
        peak_bytes=peaks.largest,
        runs=peaks.runs,
        polled=int(peaks.polled),
        enough_bytes=None if peaks.killed else int(peaks.largest * margin) + 1,
        updated_s=now_s,
    )
