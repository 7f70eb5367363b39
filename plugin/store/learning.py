"""Stored evidence, one row per finished job, and the forecasts learnt from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, delete, exists, func, select, update

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.records import EvidenceRecord, LearntRecord, PlacedRun
from berth.plugin.store.runs import PLACED
from berth.plugin.store.statements import (
    columns_of,
    counter,
    distinct,
    in_pieces,
    insert_into,
    next_revision,
    upsert,
)

_EVIDENCE = tuple(tables.evidence.c[name] for name in EvidenceRecord.__slots__)
LOOKED_BACK_S = 30 * 86_400.0
"""Learning ignores jobs that ended longer ago than this many seconds."""
_KEYS = ("cluster", "job_id")
_SEEN_OF = {"of_cluster": "cluster", "of_job": "job_id", "at_s": "ended_s", "in_state": "state"}
_SEEN = (
    update(tables.runs)
    .where(
        tables.runs.c.cluster == bindparam("of_cluster"),
        tables.runs.c.job_id == bindparam("of_job"),
    )
    .values(seen_end_s=bindparam("at_s"), seen_state=bindparam("in_state"))
)
"""Marks an outcome as processed with its end and state at that time. An outcome that changes later
is pending again.
"""


_REVISION = "revision"
_CHECKED = ("checked", "checked-everybody")


class Checked(NamedTuple):
    """The revision at which all learnt forecasts agreed with all evidence."""

    name: str
    revision: int
    """The store's present revision."""
    up_to: int
    """The revision of the last complete check; -1: evidence was added since."""

    @property
    def all(self) -> bool:
        """Return whether nothing has changed since the last complete check."""
        return self.up_to == self.revision


class Learning:
    """The tables of evidence, by cluster and job id, and of learnt forecasts, by workload
    and user.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, since_s: float, count: int) -> list[PlacedRun]:
        """Return the first ``count`` outcomes that learning has not processed, ordered by end time.

        Only outcomes of jobs with a workload that ended at or after Unix time ``since_s``.
        """
        jobs = tables.runs.c
        query = select(*PLACED).where(tables.UNSEEN, jobs.end_s >= since_s)
        query = query.order_by(jobs.end_s, jobs.cluster, jobs.job_id).limit(count)
        return [PlacedRun(*row) for row in self._database.rows(query)]

    def count_pending(self, since_s: float) -> int:
        """Return the number of outcomes since Unix time ``since_s`` that learning has not
        processed.
        """
        jobs = tables.runs
        query = select(func.count()).select_from(jobs)
        return int(self._database.value(query.where(tables.UNSEEN, jobs.c.end_s >= since_s)))

    def outdated(self) -> bool:
        """Return whether any workload was predicted anew after its learnt forecast was made."""
        table, base = tables.learnt, tables.forecasts
        older = select(table.c.workload).join(base, base.c.workload == table.c.workload)
        query = older.where(base.c.revision > table.c.revision).limit(1)
        return self._database.value(query) is not None

    def has_work(self, now_s: float) -> bool:
        """Return whether any outcome is pending or any learnt forecast is outdated."""
        return bool(self.pending(now_s - LOOKED_BACK_S, 1)) or self.outdated()

    def of_job(self, job_id: str, *, cluster: str | None = None) -> EvidenceRecord | None:
        """Return the evidence of a job, in any cluster if ``cluster`` is None; None: not stored."""
        table = tables.evidence
        query = select(*_EVIDENCE).where(table.c.job_id == job_id).limit(1)
        if cluster is not None:
            query = query.where(table.c.cluster == cluster)
        return next(iter(self._select(query)), None)

    def of_jobs(self, job_ids: Collection[str]) -> dict[tuple[str, str], EvidenceRecord]:
        """Return the evidence of these job ids, by cluster and job id."""
        table, evidence = tables.evidence, []
        for piece in in_pieces(job_ids):
            evidence += self._select(select(*_EVIDENCE).where(table.c.job_id.in_(piece)))
        return {(record.cluster, record.job_id): record for record in evidence}

    def of_user(self, user: str, count: int) -> list[EvidenceRecord]:
        """Return the evidence of the last ``count`` jobs of a user, ordered by end time."""
        return self._last(tables.evidence.c.user == user, count)

    def users(self) -> set[str]:
        """Return the users who have evidence stored."""
        with self._database.read() as connection:
            return set(distinct(connection, tables.evidence.c.user))

    def of_all(self, count: int) -> list[EvidenceRecord]:
        """Return the evidence of the last ``count`` jobs of all users, ordered by end time."""
        # Without this bound SQLite 3.53 reads all rows and sorts them.
        return self._last(tables.evidence.c.ended_s >= 0.0, count)

    def counted(self, since_s: float, most: int) -> list[tuple[str, int]]:
        """Return the number of jobs by ``use``, among the last ``most`` that ended since
        ``since_s``.
        """
        table = tables.evidence
        query = select(table.c.use).where(table.c.ended_s >= since_s)
        newest = query.order_by(table.c.ended_s.desc()).limit(most).subquery()
        counted = select(newest.c.use, func.count()).group_by(newest.c.use)
        return [(use, int(count)) for use, count in self._database.rows(counted)]

    def put(
        self,
        evidence: Sequence[EvidenceRecord],
        learnt: Sequence[LearntRecord],
        *,
        replaces: Collection[tuple[str, str]] = (),
        checked: Checked | None = None,
    ) -> bool:
        """Store evidence and the forecasts learnt from it in one transaction; return False if
        another daemon has stored some of the evidence first, and then nothing is stored.

        ``replaces``: (cluster, job id) of stored evidence about an earlier end of the same job.
        ``checked``: with these records all forecasts agree with all evidence; None: not yet.
        """
        rows = [columns_of(record) for record in evidence]
        rows.sort(key=lambda row: (row["cluster"], row["job_id"]))
        try:
            self._put(rows, learnt, replaces, checked)
        except _NotFirst:
            return False
        return True

    def _put(
        self,
        rows: Sequence[dict[str, object]],
        learnt: Sequence[LearntRecord],
        replaces: Collection[tuple[str, str]],
        checked: Checked | None,
    ) -> None:
        table = tables.evidence
        fresh = insert_into(self._database, table).on_conflict_do_nothing(index_elements=_KEYS)
        with self._database.write() as connection:
            revision = next_revision(connection) if learnt else 0
            for cluster, job_id in sorted(replaces):
                connection.execute(
                    delete(table).where(table.c.cluster == cluster, table.c.job_id == job_id)
                )
            if rows:
                stored = connection.execute(fresh.returning(table.c.job_id), rows)
                if len(stored.all()) < len(rows):
                    raise _NotFirst
                seen = [{hole: row[name] for hole, name in _SEEN_OF.items()} for row in rows]
                connection.execute(_SEEN, seen)
            for record in learnt:
                values = columns_of(record)
                values["revision"] = revision
                put = upsert(self._database, tables.learnt, values, ("workload", "user"))
                connection.execute(put, values)
            _set_unchecked(connection)
            if checked and counter(connection, _REVISION) == checked.revision + bool(learnt):
                value = {"name": checked.name, "value": checked.revision + bool(learnt)}
                put = upsert(self._database, tables.counters, value, ("name",))
                connection.execute(put, value)

    def checked(self, *, everybody: bool) -> Checked:
        """Return up to which revision forecasts agree with all evidence.

        ``everybody``: whether jobs of all users count for each user's forecasts.
        """
        name = "checked-everybody" if everybody else "checked"
        with self._database.read() as connection:
            return Checked(name, counter(connection, _REVISION), counter(connection, name))

    def set_use(self, cluster: str, job_id: str, use: str) -> bool:
        """Change the ``use`` of a job's evidence; return False if the job has no evidence."""
        table = tables.evidence
        with self._database.write() as connection:
            updated = connection.execute(
                update(table)
                .where(table.c.cluster == cluster, table.c.job_id == job_id)
                .values(use=use)
            )
            _set_unchecked(connection)
        return bool(updated.rowcount)

    def clear(self, keep: str, since_s: float) -> int:
        """Delete all learnt forecasts and all evidence except with ``use`` equal to ``keep``, which
        admins set; return the number of deleted jobs.

        Jobs that ended after Unix time ``since_s`` become pending again.
        """
        table, jobs = tables.evidence, tables.runs
        stays = exists().where(table.c.cluster == jobs.c.cluster, table.c.job_id == jobs.c.job_id)
        again = update(jobs).where(jobs.c.end_s >= since_s, ~stays)
        with self._database.write() as connection:
            next_revision(connection)
            connection.execute(delete(tables.learnt))
            count = connection.execute(delete(table).where(table.c.use != keep)).rowcount
            connection.execute(again.values(seen_end_s=None, seen_state=None))
        return int(count)

    def forecasts(self, workload: str | None = None) -> list[LearntRecord]:
        """Return the learnt forecasts of a workload (None: of all workloads), by workload
        and user.
        """
        table = tables.learnt
        query = select(table).order_by(table.c.workload, table.c.user)
        if workload is not None:
            query = query.where(table.c.workload == workload)
        return [_learnt(row._mapping) for row in self._database.rows(query)]

    def inputs(self, workload: str | None = None) -> dict[tuple[str, str], str]:
        """Return the input digests of learnt forecasts, by workload and user; the forecasts are not
        read.

        ``workload`` None: of all workloads.
        """
        table = tables.learnt
        query = select(table.c.workload, table.c.user, table.c.inputs)
        if workload is not None:
            query = query.where(table.c.workload == workload)
        return {(row.workload, row.user): row.inputs for row in self._database.rows(query)}

    def prune(self, before_s: float) -> int:
        """Delete evidence of jobs that ended before Unix time ``before_s``; return the number of
        jobs.
        """
        count = delete_before(self._database, tables.evidence.c.ended_s, before_s)
        with self._database.write() as connection:
            _set_unchecked(connection)
        return count

    def _last(self, where: object, count: int) -> list[EvidenceRecord]:
        table = tables.evidence
        order = (table.c.ended_s.desc(), table.c.cluster.desc(), table.c.job_id.desc())
        query = select(*_EVIDENCE).where(where).order_by(*order).limit(count)  # type: ignore[arg-type]
        return self._select(query)[::-1]

    def _select(self, query: Select[Any]) -> list[EvidenceRecord]:
        return [EvidenceRecord(*row) for row in self._database.rows(query)]


def _set_unchecked(connection: Connection) -> None:
    table = tables.counters
    connection.execute(update(table).where(table.c.name.in_(_CHECKED)).values(value=-1))


class _NotFirst(Exception):
    """Another daemon has already stored some of the evidence."""


def changed_since(
    connection: Connection, revision: int
) -> tuple[list[LearntRecord], set[tuple[str, str]]]:
    """Return learnt forecasts newer than ``revision``, and (workload, user) of all valid learnt
    forecasts.

    A learnt forecast that is older than its workload's own forecast is invalid.
    """
    table, base = tables.learnt, tables.forecasts
    newest = (
        select(base.c.workload, func.max(base.c.revision).label("newest"))
        .group_by(base.c.workload)
        .subquery()
    )
    valid = (
        select(table)
        .join(newest, newest.c.workload == table.c.workload)
        .where(table.c.revision > newest.c.newest)
    )
    keys = connection.execute(valid.with_only_columns(table.c.workload, table.c.user)).all()
    fresh = connection.execute(valid.where(table.c.revision > revision))
    return [_learnt(row._mapping) for row in fresh], {(workload, user) for workload, user in keys}


def _learnt(row: object) -> LearntRecord:
    return LearntRecord(**{name: row[name] for name in LearntRecord.__slots__})  # type: ignore
