"""Determines whose finished jobs change whose forecasts, and learns from them for one reader.

A reader is a user, or everybody (the empty name). Everybody's forecast of a shared workload learns
only from the owner's jobs, because other users may run any program under a shared name. A user's
forecasts learn from these jobs and from the user's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from berth.pilot.errors import DocumentError
from berth.plugin.learning.counted import COUNTED, LearningUse
from berth.plugin.store.records import ForecastRecord, PlacedRun, WorkloadRecord
from berth.plugin.store.store import Store
from berth.plugin.workloads.names import may_use, owner_in
from berth.predictor.core.forecast import Forecast
from berth.predictor.learning.evidence import Evidence, with_place_of
from berth.predictor.learning.site_history import SiteHistory

EVERYBODY = ""
MOST_OF_USER = 5_000
MOST_OF_ALL = 20_000
"""Maximum number of evidence records read of all users (``MOST_OF_USER``: of one user), the
newest ones."""
LEAST_OF_OWNER = 200
"""Number of newest jobs read for each owner of a shared workload, at least."""


class StoreReader:
    """Reads from the store, at most once each, the records that one round of learning needs.

    These are workloads, their forecasts without learning, the newest evidence, and the inputs of
    the stored learnt forecasts.
    """

    def __init__(self, store: Store, *, most: int = MOST_OF_ALL) -> None:
        """``most``: maximum number of evidence records of all users, the newest ones."""
        self._store = store
        self._most = most
        self._records: dict[str, WorkloadRecord | None] = {}
        self._forecasts: dict[str, tuple[Forecast, str] | None] = {}

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return the workload of that name; None: it does not exist any more."""
        if name not in self._records:
            self._records[name] = self._store.workload(name)
        return self._records[name]

    def read_workloads(self, names: Collection[str]) -> None:
        """Read the workloads of these names into the cache, in one query."""
        unread = [name for name in names if name not in self._records]
        self._records |= dict.fromkeys(unread)
        self._records |= {record.name: record for record in self._store.workloads_of(unread)}

    def read_forecasts(self, names: Collection[str]) -> None:
        """Read the forecasts of these workloads into the cache, in one query."""
        unread = [name for name in names if name not in self._forecasts]
        newest = self._store.forecasts_of(unread)
        self._forecasts |= {name: _parsed(newest.get(name)) for name in unread}

    def forecast(self, name: str) -> Forecast | None:
        """Return the workload's newest forecast without learning; None: there is none, or it is
        unreadable."""
        stored = self._with_digest(name)
        return None if stored is None else stored[0]

    def digest(self, name: str) -> str:
        """Return the digest of the workload's forecast without learning; empty where there is
        none."""
        stored = self._with_digest(name)
        return "" if stored is None else stored[1]

    @cached_property
    def names(self) -> list[str]:
        """Return the names of all workloads."""
        return self._store.names()

    @cached_property
    def last(self) -> list[PlacedRun]:
        """Return the newest evidence records of all users, in order of the jobs' ends."""
        return self._store.learning.of_all(self._most)

    @cached_property
    def of_owners(self) -> list[PlacedRun]:
        """Return the newest evidence records of users who own a shared workload, about
        ``MOST_OF_ALL`` in total, so that other users' jobs do not displace them."""
        names = [name for name in self.names if owner_in(name) is None]
        self.read_workloads(names)
        shared = map(self.workload, names)
        owners = sorted(
            {workload.owner for workload in shared if workload is not None and workload.owner}
        )
        each = max(LEAST_OF_OWNER, MOST_OF_ALL // max(len(owners), 1))
        return [r for owner in owners for r in self._store.learning.of_user(owner, each)]

    @cached_property
    def users(self) -> set[str]:
        """Return the names of users who have evidence records."""
        return self._store.learning.users()

    @cached_property
    def inputs(self) -> dict[tuple[str, str], str]:
        """Return the digest of each learnt forecast's inputs, by workload and user."""
        return self._store.learning.inputs()

    def of_user(self, user: str) -> list[PlacedRun]:
        """Return the newest ``MOST_OF_USER`` evidence records of one user."""
        return self._store.learning.of_user(user, MOST_OF_USER)

    def _with_digest(self, name: str) -> tuple[Forecast, str] | None:
        if name not in self._forecasts:
            self.read_forecasts([name])
        return self._forecasts[name]


class LearningScope:
    """All evidence that one reader may learn from, in order of the jobs' ends."""

    def __init__(self, stored: StoreReader, reader: str, *, everybody: bool = False) -> None:
        self.reader = reader
        self.records: list[PlacedRun] = []
        """Evidence records in the order of the jobs' ends."""
        self._stored = stored
        self._everybody = everybody
        self._forecasts: dict[str, Forecast] = {}
        self.history = SiteHistory(self._forecasts)

    def add(self, record: PlacedRun, score: float | None = None) -> float | None:
        """Learn from a job that ended after all earlier ones; return its surprise score
        (``score`` if given), None if it has none."""
        name, evidence = _workload(record), _evidence(record)
        base = self._forecasts.get(name) or self._stored.forecast(name)
        if base is not None:
            self._forecasts[name] = with_place_of(base, evidence)
        self.records.append(record)
        return self.history.add(evidence, score)

    def workloads(self) -> list[str]:
        """Return the workloads whose forecast for this reader may differ from their forecast
        without learning."""
        ran = {_workload(record) for record in self.records if self._is_own(record)}
        if self.history.platforms:
            ran |= {name for name in self._stored.names if self._belongs(name)}
        with_learnt = {
            workload
            for workload, user in self._stored.inputs
            if user == self.user_of(workload) and self._may_have(workload)
        }
        return sorted(n for n in ran | with_learnt if self._learns(n))

    def user_of(self, workload: str) -> str:
        """Return the user under whose name the forecast is stored; the empty name where only the
        workload's owner may use it."""
        return EVERYBODY if owner_in(workload) is not None else self.reader

    def forecast(self, workload: str) -> Forecast:
        """Return the workload's forecast without learning, on all platforms where its jobs ran."""
        base = self._forecasts.get(workload) or self._stored.forecast(workload)
        assert base is not None  # noqa: S101 - workloads() names only those that have one
        return base

    def inputs(self, workload: str) -> str:
        """Return the digest of all inputs of the workload's forecast for this reader."""
        jobs = [
            (r.cluster, r.job_id, r.use, r.end_s) for r in self.records if r.workload == workload
        ]
        text = json.dumps(
            [self._stored.digest(workload), jobs, self.history.standing_digest(workload)]
        )
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def _learns(self, name: str) -> bool:
        record, forecast = self._stored.workload(name), self._stored.forecast(name)
        return (
            record is not None
            and record.kind != "history"
            and forecast is not None
            and forecast.whole_job
        )

    def _is_own(self, record: PlacedRun) -> bool:
        return self.reader in {EVERYBODY, record.user}

    def _belongs(self, name: str) -> bool:
        """Return whether evidence of other workloads may change this workload's forecast: a
        user's own for that user, shared ones for everybody."""
        owner = owner_in(name)
        return owner == self.reader if owner is not None else self.reader == EVERYBODY

    def _may_have(self, name: str) -> bool:
        if self.reader == EVERYBODY:
            return owner_in(name) is None or self._everybody
        return may_use(self.reader, name)

    def counts(self, record: PlacedRun) -> bool:
        """Return whether this reader may learn from the job."""
        if record.use not in (LearningUse.USED, LearningUse.CENSORED):
            return False
        if self._current(record) is None:
            return False
        if self._is_own(record) and self.reader != EVERYBODY:
            return may_use(self.reader, _workload(record))
        return self.counts_for_all(record)

    def counts_for_all(self, record: PlacedRun) -> bool:
        """Return whether every reader may learn from the job."""
        workload = self._current(record)
        if workload is None or record.use not in COUNTED:
            return False
        if self._everybody:
            return may_use(record.user, _workload(record))
        return owner_in(_workload(record)) is None and record.user == workload.owner != ""

    def _current(self, record: PlacedRun) -> WorkloadRecord | None:
        workload = self._stored.workload(_workload(record))
        if workload is None or workload.digest != record.workload_digest:
            return None
        return workload


class Scopes:
    """The scopes of several readers, which learn from jobs in order of their ends.

    A job's surprise score is computed in the scope of the job's own user and used for all readers,
    so it does not depend on which readers learn together.
    """

    def __init__(
        self, stored: StoreReader, readers: Iterable[str], *, everybody: bool = False
    ) -> None:
        self.of = {reader: LearningScope(stored, reader, everybody=everybody) for reader in readers}
        self.scores: dict[tuple[str, str], float] = {}
        """New surprise scores of jobs, by cluster and job id."""
        self._stored = stored
        self._everybody = everybody
        self._any = LearningScope(stored, EVERYBODY, everybody=everybody)

    def begin(self, fresh: Sequence[PlacedRun] = ()) -> None:
        """Learn from all stored evidence and from ``fresh``, evidence that is not stored yet."""
        stored_records = list(self._stored.last if self._everybody else self._stored.of_owners)
        for reader in self.of:
            if reader != EVERYBODY:
                stored_records += self._stored.of_user(reader)
        by_key = {(r.cluster, r.job_id): r for r in (*stored_records, *fresh)}
        workloads = {_workload(record) for record in by_key.values()}
        self._stored.read_workloads(workloads)
        self._stored.read_forecasts(workloads)
        for record in sorted(by_key.values(), key=_in_time):
            own, score = self.of.get(EVERYBODY if self._everybody else record.user), record.score
            if own is not None and own.counts(record):
                score = own.add(record, score)
                if record.score is None and score is not None:
                    self.scores[record.cluster, record.job_id] = score
            if self._any.counts_for_all(record):
                for scope in self.of.values():
                    if scope is not own:
                        scope.add(record, score)


def scope_of(stored: StoreReader, reader: str, *, everybody: bool = False) -> LearningScope:
    """Return the scope of one reader with all stored evidence."""
    scopes = Scopes(stored, [reader], everybody=everybody)
    scopes.begin()
    return scopes.of[reader]


def _in_time(record: PlacedRun) -> tuple[float, str, str]:
    return record.end_s or 0.0, record.cluster, record.job_id


def _parsed(newest: ForecastRecord | None) -> tuple[Forecast, str] | None:
    """Return a stored forecast and its digest; None: there is none, or it is unreadable."""
    if newest is None:
        return None
    try:
        forecast = Forecast.from_json(newest.document)
    except DocumentError:
        return None
    return forecast, hashlib.sha256(newest.document.encode()).hexdigest()[:16]


def _workload(record: PlacedRun) -> str:
    return record.workload or ""  # never empty: learning looks at runs with a workload only


def _evidence(record: PlacedRun) -> Evidence:
    return Evidence(
        job=f"{record.cluster}/{record.job_id}",
        user=record.user,
        workload=_workload(record),
        digest=record.workload_digest or "",
        platform=record.platform or "",
        cores=record.ranked_cores or 0,
        gpus=record.ranked_gpus or 0,
        size=record.size,
        runtime_s=record.elapsed_s,
        ended_s=record.end_s or 0.0,
        censored=record.use == LearningUse.CENSORED,
        peak_memory_bytes=record.peak_bytes,
        nodes=record.nodes,
    )
