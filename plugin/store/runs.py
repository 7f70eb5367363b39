"""The table of runs, and two readers of it: runs that Berth placed, and runs from accounting.

The daemon follows the jobs that Berth decided on (``followed``), and the accounting of all jobs is
imported (``accounted``). A job that both tell of is one row: each writes the columns that it knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, delete, func, or_, select, tuple_

from berth.pilot.progress import is_shown, report
from berth.pilot.run import Run
from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.records import PlacedRun, RunSums
from berth.plugin.store.statements import (
    count_of,
    distinct,
    in_pieces,
    names_of,
    put_all,
    set_unchecked,
    upsert,
)

RUNS = tables.runs.c
PLACED = tuple(RUNS[name] for name in names_of(PlacedRun))
"""The columns of a ``PlacedRun``."""
_RUN = tuple(RUNS[name] for name in names_of(Run))
_SUMS = tuple(RUNS[name] for name in RunSums._fields)
_JOB = ("cluster", "job_id")
_PAGE = 1_000
_OF_ACCOUNTING = frozenset(
    ("account", "name", "program", "script", "arguments", "similar", "request_bytes",
     "gpu_memory_utilisation")
)  # fmt: skip
"""Columns that the daemon does not read when it follows a job."""
_OF_LEARNING = frozenset(
    ("use", "seen_end_s", "seen_state", "workload_digest", "ranked_cores", "ranked_gpus", "size",
     "score")
)  # fmt: skip
_OF_DAEMON = frozenset(("decision", "exit_status"))
"""Columns that are not imported."""
_FOLLOWED, _ACCOUNTED = RUNS.followed == 1, RUNS.accounted == 1
_IS_FOLLOWED, _IS_ACCOUNTED = (
    func.coalesce(column, 0) == 1 for column in (RUNS.followed, RUNS.accounted)
)
"""The same for queries that another index answers: SQLite may not choose that of this column."""


def _is_called(job_id: str) -> ColumnElement[bool]:
    return or_(RUNS.job_id == job_id, RUNS.raw_id == job_id)


def _rename(database: Database, records: Sequence[Run]) -> None:
    """Give stored runs that are known by their raw id the id of the record, so that each job is
    one row: a scheduler may name a task of an array by its number first."""
    named: dict[str, dict[str, str]] = {}
    for record in records:
        if record.raw_id:
            named.setdefault(record.cluster, {})[record.raw_id] = record.job_id
    for cluster, job_ids in named.items():
        for piece in in_pieces(job_ids):
            stored = select(tables.runs).where(RUNS.cluster == cluster, RUNS.job_id.in_(piece))
            for row in database.rows(stored):
                _rename_row(database, dict(row._mapping), job_ids[row.job_id])


def _rename_row(database: Database, values: dict[str, Any], job_id: str) -> None:
    """Store a row under another id; of a row that is there, what this one lacks stays."""
    cluster, raw_id = values["cluster"], values["job_id"]
    there = select(tables.runs).where(RUNS.cluster == cluster, RUNS.job_id == job_id)
    for row in database.rows(there):
        known = {name: value for name, value in values.items() if value not in (None, "")}
        values = {**row._mapping, **known}
    values.update(job_id=job_id, raw_id=raw_id)
    with database.write() as connection:
        connection.execute(
            delete(tables.runs).where(RUNS.cluster == cluster, RUNS.job_id == raw_id)
        )
        connection.execute(upsert(database, tables.runs, values, _JOB), values)


class Outcomes:
    """The runs of jobs for which Berth made decisions, by cluster and job id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[PlacedRun]) -> None:
        """Store records in one transaction; a stored job of the same cluster and job id is
        replaced.
        """
        marks = {"followed": 1}
        _rename(self._database, records)
        kept = _OF_ACCOUNTING | _OF_LEARNING
        put_all(self._database, tables.runs, records, _JOB, kept=kept, marks=marks)

    def of_job(self, job_id: str, *, cluster: str | None = None) -> PlacedRun | None:
        """Return the run of a job, in any cluster if ``cluster`` is None; None: not stored."""
        query = select(*PLACED).where(_IS_FOLLOWED, _is_called(job_id)).limit(1)
        if cluster is not None:
            query = query.where(RUNS.cluster == cluster)
        return next(iter(self._select(query)), None)

    def of_decision(self, decision: str) -> list[PlacedRun]:
        """Return the runs of the jobs for which a decision was made (several for a job array)."""
        return self.of_decisions([decision]).get(decision, [])

    def of_decisions(self, decisions: Collection[str]) -> dict[str, list[PlacedRun]]:
        """Return runs by the id of the decision that their jobs were placed by."""
        by_decision: dict[str, list[PlacedRun]] = {}
        for piece in in_pieces(decisions):
            query = select(*PLACED).where(RUNS.decision.in_(piece)).order_by(RUNS.job_id)
            for record in self._select(query):
                by_decision.setdefault(record.decision or "", []).append(record)
        return by_decision

    def between(
        self, since_s: float, until_s: float, *, cluster: str | None = None
    ) -> Iterator[PlacedRun]:
        """Yield jobs that ended between two Unix times (the second excluded), ordered by end time.

        Reads in pages, so that a history of any length takes little memory.
        """
        named = [cluster] if cluster is not None else self._clusters()
        pages = (self._of_cluster(name, since_s, until_s) for name in named)
        return merge(*pages, key=attrgetter("end_s", "cluster"))

    def newest(self, since_s: float, until_s: float, most: int) -> list[RunSums]:
        """Return the last ``most`` jobs that ended between two Unix times (the second excluded),
        oldest first.

        Reads only the columns of RunSums, in one statement.
        """
        rows = self._database.rows(_newest(_SUMS, since_s, until_s, most))
        return [RunSums._make(row) for row in reversed(rows)]

    def last(self, since_s: float, until_s: float, most: int) -> list[PlacedRun]:
        """Return the last ``most`` jobs that ended between two Unix times (the second excluded),
        oldest first, with all columns.
        """
        return self._select(_newest(PLACED, since_s, until_s, most))[::-1]

    def count(self, since_s: float, until_s: float, most: int) -> int:
        """Return the number of jobs that ended between two Unix times, counting at most ``most``;
        reads only the index.
        """
        ended = RUNS.end_s >= since_s, RUNS.end_s < until_s
        with self._database.read() as connection:
            return count_of(connection, most, _FOLLOWED, *ended)

    def _of_cluster(self, cluster: str, since_s: float, until_s: float) -> Iterator[PlacedRun]:
        """Yield a cluster's runs, read in pages, each of which begins at the last end time of the
        page before.
        """
        order = (RUNS.end_s, RUNS.job_id)
        query = select(*PLACED).where(_FOLLOWED, RUNS.cluster == cluster, RUNS.end_s < until_s)
        query = query.order_by(*order).limit(_PAGE)
        page = query.where(RUNS.end_s >= since_s)
        while True:
            records = self._select(page)
            yield from records
            if len(records) < _PAGE:
                return
            last = records[-1]
            beyond = tuple_(*order) > tuple_(last.end_s, last.job_id)
            page = query.where(RUNS.end_s >= last.end_s, beyond)

    def _clusters(self) -> list[str]:
        with self._database.read() as connection:
            return distinct(connection, RUNS.cluster)

    def newest_end_s(self, cluster: str) -> float | None:
        """Return the latest end of a stored job of this cluster, in Unix time; None: none is."""
        newest = select(func.max(RUNS.end_s)).where(_FOLLOWED, RUNS.cluster == cluster)
        newest_s: float | None = self._database.value(newest)
        return newest_s

    def prune(self, before_s: float) -> int:
        """Delete runs that ended before Unix time ``before_s``, also those from accounting; return
        their number.
        """
        count = delete_before(self._database, RUNS.end_s, before_s)
        with self._database.write() as connection:
            set_unchecked(connection)
        return count

    def _select(self, query: Select[Any]) -> list[PlacedRun]:
        return [PlacedRun(*row) for row in self._database.rows(query)]


def _newest(
    columns: Sequence[Column[Any]], since_s: float, until_s: float, most: int
) -> Select[Any]:
    """Return a query for jobs that ended between two Unix times (the second excluded), newest
    first.
    """
    order = (RUNS.end_s.desc(), RUNS.cluster.desc(), RUNS.job_id.desc())
    between = select(*columns).where(_FOLLOWED, RUNS.end_s >= since_s, RUNS.end_s < until_s)
    return between.order_by(*order).limit(most)


class PastJobs:
    """The runs from accounting, whether Berth placed them or not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[Run]) -> None:
        """Store records in one transaction; a stored job of the same cluster and job id is
        replaced.
        """
        marks = {"accounted": 1}
        _rename(self._database, records)
        put_all(self._database, tables.runs, records, _JOB, kept=_OF_DAEMON, marks=marks)

    def of_users(self, user: str | None = None, *, followed: bool = False) -> Iterator[Run]:
        """Yield the jobs of one user, or of all users, ordered by user and end time; read in pages.

        ``followed``: with the jobs that ran and that only the daemon has told of.
        """
        ran = (RUNS.user != "", RUNS.start_s.is_not(None), RUNS.end_s.is_not(None))
        wanted = or_(_IS_ACCOUNTED, (RUNS.elapsed_s > 0) & ran[0] & ran[1] & ran[2])
        order = (RUNS.user, RUNS.end_s, RUNS.cluster, RUNS.job_id)
        query = select(*_RUN).where(wanted if followed else _IS_ACCOUNTED)
        query = query.order_by(*order).limit(_PAGE)
        if user is not None:
            query = query.where(RUNS.user == user)
        page, count = query, 0
        expected = self.count() if user is None and is_shown() else 0
        while True:
            records = [Run(*row) for row in self._database.rows(page)]
            yield from records
            count += len(records)
            report("past jobs read", count, expected if len(records) == _PAGE else count)
            if len(records) < _PAGE:
                return
            last = records[-1]
            page = query.where(
                tuple_(*order) > tuple_(last.user, last.end_s, last.cluster, last.job_id)
            )

    def of_ids(self, cluster: str, job_ids: Collection[str]) -> dict[str, Run]:
        """Return those of these jobs that are stored, by job id."""
        jobs = {}
        for piece in in_pieces(job_ids):
            query = select(*_RUN).where(
                _IS_ACCOUNTED, RUNS.cluster == cluster, RUNS.job_id.in_(piece)
            )
            jobs.update({row.job_id: Run(*row) for row in self._database.rows(query)})
        return jobs

    def of_job(self, job_id: str) -> Run | None:
        """Return a stored job, of whichever cluster; None: not stored."""
        query = select(*_RUN).where(_IS_ACCOUNTED, _is_called(job_id)).limit(1)
        return next((Run(*row) for row in self._database.rows(query)), None)

    def ids_of_raw(self, cluster: str, raw_ids: Collection[str]) -> dict[str, str]:
        """Return the job ids of stored jobs that nodes and monitoring know by these numbers."""
        ids = {}
        for piece in in_pieces(raw_ids):
            query = select(RUNS.raw_id, RUNS.job_id).where(
                RUNS.cluster == cluster, RUNS.raw_id.in_(piece)
            )
            ids.update({row.raw_id: row.job_id for row in self._database.rows(query)})
        return ids

    def count(self) -> int:
        """Return the number of stored past jobs."""
        query = select(func.count()).select_from(tables.runs).where(_ACCOUNTED)
        return int(self._database.value(query))

    def newest_end_s(self, cluster: str) -> float | None:
        """Return the latest end of a stored job of this cluster, in Unix time; None: none is."""
        newest = select(func.max(RUNS.end_s)).where(_ACCOUNTED, RUNS.cluster == cluster)
        newest_s: float | None = self._database.value(newest)
        return newest_s
