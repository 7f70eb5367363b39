"""What learning made of each finished job, and the forecasts learnt from them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    String,
    bindparam,
    delete,
    func,
    select,
    update,
)

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.records import LearntRecord, PlacedRun
from berth.plugin.store.runs import PLACED
from berth.plugin.store.statements import (
    columns_of,
    counter,
    distinct,
    next_revision,
    set_unchecked,
    upsert,
)

LOOKED_BACK_S = 30 * 86_400.0
"""Learning ignores jobs that ended longer ago than this many seconds."""
_RUNS = tables.runs.c
_OF_LEARNING = ("use", "workload_digest", "ranked_cores", "ranked_gpus", "size", "score")
_LOOKED_AT = (
    update(tables.runs)
    .where(
        _RUNS.cluster == bindparam("of_cluster"),
        _RUNS.job_id == bindparam("of_job"),
        _RUNS.seen_end_s.is_not_distinct_from(bindparam("before_s", type_=Double)),
        _RUNS.seen_state.is_not_distinct_from(bindparam("before_state", type_=String)),
    )
    .values(
        seen_end_s=bindparam("at_s"),
        seen_state=bindparam("in_state"),
        **{name: bindparam(f"new_{name}") for name in _OF_LEARNING},
    )
)
"""Marks a run as looked at with its end and state at that time, unless another daemon did so
since it was read. A run that ended otherwise later is pending again.
"""


_REVISION = "revision"


class Checked(NamedTuple):
    """The revision at which all learnt forecasts agreed with all runs."""

    name: str
    revision: int
    """The store's present revision."""
    up_to: int
    """The revision of the last complete check; -1: runs were looked at since."""

    @property
    def all(self) -> bool:
        """Return whether nothing has changed since the last complete check."""
        return self.up_to == self.revision


class Learning:
    """What learning makes of runs, and the table of learnt forecasts, by workload and user."""

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

    def of_user(self, user: str, count: int) -> list[PlacedRun]:
        """Return the last ``count`` runs of a user that learning looked at, ordered by end time."""
        return self._last(_RUNS.user == user, count)

    def users(self) -> set[str]:
        """Return the users of whose runs learning looked at some."""
        with self._database.read() as connection:
            return set(distinct(connection, _RUNS.user, tables.LOOKED_AT))

    def of_all(self, count: int) -> list[PlacedRun]:
        """Return the last ``count`` runs that learning looked at, ordered by end time."""
        return self._last(_RUNS.followed == 1, count)

    def counted(self, since_s: float, most: int) -> list[tuple[str, int]]:
        """Return the number of runs by ``use``, among the last ``most`` that ended since
        ``since_s``.
        """
        query = select(_RUNS.use).where(
            tables.LOOKED_AT, _RUNS.followed == 1, _RUNS.end_s >= since_s
        )
        newest = query.order_by(_RUNS.end_s.desc()).limit(most).subquery()
        counted = select(newest.c.use, func.count()).group_by(newest.c.use)
        return [(use, int(count)) for use, count in self._database.rows(counted)]

    def put(
        self,
        looked_at: Sequence[PlacedRun],
        learnt: Sequence[LearntRecord],
        *,
        checked: Checked | None = None,
    ) -> bool:
        """Store how learning uses runs, and the forecasts learnt from them, in one transaction;
        return False if another daemon has looked at some of the runs first, and then nothing is
        stored.

        ``looked_at``: the runs as they were read, with their new ``use``. ``checked``: with these
        all forecasts agree with all runs; None: not yet.
        """
        rows = [
            {
                "of_cluster": run.cluster,
                "of_job": run.job_id,
                "before_s": run.seen_end_s,
                "before_state": run.seen_state,
                "at_s": run.end_s,
                "in_state": run.state,
                **{f"new_{name}": getattr(run, name) for name in _OF_LEARNING},
            }
            for run in sorted(looked_at, key=attrgetter("cluster", "job_id"))
        ]
        try:
            self._put(rows, learnt, checked)
        except _NotFirst:
            return False
        return True

    def _put(
        self,
        rows: Sequence[dict[str, object]],
        learnt: Sequence[LearntRecord],
        checked: Checked | None,
    ) -> None:
        with self._database.write() as connection:
            revision = next_revision(connection) if learnt else 0
            for row in rows:
                if connection.execute(_LOOKED_AT, row).rowcount != 1:
                    raise _NotFirst
            for record in learnt:
                values = columns_of(record)
                values["revision"] = revision
                put = upsert(self._database, tables.learnt, values, ("workload", "user"))
                connection.execute(put, values)
            set_unchecked(connection)
            if checked and counter(connection, _REVISION) == checked.revision + bool(learnt):
                value = {"name": checked.name, "value": checked.revision + bool(learnt)}
                put = upsert(self._database, tables.counters, value, ("name",))
                connection.execute(put, value)

    def checked(self, *, everybody: bool) -> Checked:
        """Return up to which revision forecasts agree with all runs.

        ``everybody``: whether jobs of all users count for each user's forecasts.
        """
        name = "checked-everybody" if everybody else "checked"
        with self._database.read() as connection:
            return Checked(name, counter(connection, _REVISION), counter(connection, name))

    def set_use(self, job_id: str, use: str) -> list[str]:
        """Change the ``use`` of the runs of that id that learning looked at; return their
        workloads.
        """
        runs = (_RUNS.job_id == job_id) | (_RUNS.raw_id == job_id)
        changed = update(tables.runs).where(tables.LOOKED_AT, runs).values(use=use)
        with self._database.write() as connection:
            workloads = connection.execute(changed.returning(_RUNS.workload)).scalars().all()
            set_unchecked(connection)
        return sorted(set(workloads))

    def clear(self, keep: str, since_s: float) -> int:
        """Delete all learnt forecasts, and what learning made of runs except with ``use`` equal to
        ``keep``, which admins set; return the number of runs.

        Runs that ended after Unix time ``since_s`` become pending again.
        """
        forgotten = update(tables.runs).where(tables.LOOKED_AT, _RUNS.use != keep)
        again = update(tables.runs).where(_RUNS.end_s >= since_s, _RUNS.use.is_(None))
        with self._database.write() as connection:
            next_revision(connection)
            connection.execute(delete(tables.learnt))
            nothing = dict.fromkeys(_OF_LEARNING)
            count = connection.execute(forgotten.values(nothing)).rowcount
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

    def _last(self, where: ColumnElement[bool], count: int) -> list[PlacedRun]:
        order = (_RUNS.end_s.desc(), _RUNS.cluster.desc(), _RUNS.job_id.desc())
        # Without a bound on the end SQLite 3.53 reads all rows and sorts them.
        query = select(*PLACED).where(tables.LOOKED_AT, where, _RUNS.end_s >= 0.0)
        rows = self._database.rows(query.order_by(*order).limit(count))
        return [PlacedRun(*row) for row in rows[::-1]]


class _NotFirst(Exception):
    """Another daemon has already looked at some of the runs."""


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
