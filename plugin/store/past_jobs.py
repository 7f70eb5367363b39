"""Stored past jobs from accounting, by cluster and job id, and the peak memory of similar past
jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, tuple_

from berth.pilot.progress import is_shown, report
from berth.pilot.run import Run
from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.records import MemoryNeedRecord, NodeRecord
from berth.plugin.store.statements import (
    distinct,
    in_pieces,
    newest_end_s,
    next_revision,
    put_all,
)

_PAGE = 1_000
_NAMES = tuple(tables.past_jobs.c.keys())
"""The fields of a Run that the table has."""


class PastJobs:
    """The table of past jobs from accounting, whether Berth placed them or not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[Run]) -> None:
        """Store records in one transaction; a stored job of the same cluster and job id is
        replaced.
        """
        put_all(self._database, tables.past_jobs, records, ("cluster", "job_id"))

    def of_users(self, user: str | None = None) -> Iterator[Run]:
        """Yield the jobs of one user, or of all users, ordered by user and end time; read
        in pages.
        """
        table = tables.past_jobs
        order = (table.c.user, table.c.end_s, table.c.cluster, table.c.job_id)
        query = select(table).order_by(*order).limit(_PAGE)
        if user is not None:
            query = query.where(table.c.user == user)
        page, count = query, 0
        expected = self.count() if user is None and is_shown() else 0
        while True:
            records = [_run(row) for row in self._database.rows(page)]
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
        table = tables.past_jobs
        jobs = {}
        for piece in in_pieces(job_ids):
            query = select(table).where(table.c.cluster == cluster, table.c.job_id.in_(piece))
            for row in self._database.rows(query):
                jobs[row.job_id] = _run(row)
        return jobs

    def of_job(self, job_id: str) -> Run | None:
        """Return a stored job, of whichever cluster; None: not stored."""
        with self._database.read() as connection:
            clusters = distinct(connection, tables.past_jobs.c.cluster)
        jobs = (self.of_ids(cluster, [job_id]).get(job_id) for cluster in clusters)
        return next(filter(None, jobs), None)

    def ids_of_raw(self, cluster: str, raw_ids: Collection[str]) -> dict[str, str]:
        """Return the job ids of stored jobs that nodes and monitoring know by these numbers."""
        table = tables.past_jobs
        ids = {}
        for piece in in_pieces(raw_ids):
            query = select(table.c.raw_id, table.c.job_id).where(
                table.c.cluster == cluster, table.c.raw_id.in_(piece)
            )
            ids.update({row.raw_id: row.job_id for row in self._database.rows(query)})
        return ids

    def count(self) -> int:
        """Return the number of stored past jobs."""
        return int(self._database.value(select(func.count()).select_from(tables.past_jobs)))

    def newest_end_s(self, cluster: str) -> float | None:
        """Return the latest end of a stored job of this cluster, in Unix time; None: none is."""
        return newest_end_s(self._database, tables.past_jobs, cluster)

    def prune(self, before_s: float) -> int:
        """Delete jobs that ended before Unix time ``before_s``; return their number."""
        return delete_before(self._database, tables.past_jobs.c.end_s, before_s)


def _run(row: Row[*tuple[Any, ...]]) -> Run:
    return Run(**dict(zip(_NAMES, row, strict=True)))


class Nodes:
    """The table of a site's nodes as last seen, also of those that were removed since."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[NodeRecord]) -> None:
        """Store records in one transaction; a stored node of the same cluster and name is
        replaced.
        """
        put_all(self._database, tables.nodes, records, ("cluster", "name"))

    def of_cluster(self, cluster: str) -> list[NodeRecord]:
        """Return all stored nodes of a cluster."""
        query = select(tables.nodes).where(tables.nodes.c.cluster == cluster)
        return [NodeRecord(**row._mapping) for row in self._database.rows(query)]

    def prune(self, before_s: float) -> int:
        """Delete nodes that were last seen before Unix time ``before_s``; return their number."""
        table = tables.nodes
        with self._database.write() as connection:
            return int(connection.execute(delete(table).where(table.c.seen_s < before_s)).rowcount)


class MemoryNeeds:
    """The table of memory needs: one row per key that a new job can be matched with."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[MemoryNeedRecord]) -> None:
        """Store records in one transaction; stored records of the same keys are replaced."""
        put_all(self._database, tables.memory_needs, records, ("digest",), revises=True)

    def all(self) -> list[MemoryNeedRecord]:
        """Return all memory needs, ordered by user."""
        table = tables.memory_needs
        with self._database.read() as connection:
            return memory_needs(connection, table.c.user, table.c.digest)

    def prune(self, before_s: float) -> int:
        """Delete memory needs that were last updated before Unix time ``before_s``; return their
        number.
        """
        table = tables.memory_needs
        with self._database.write() as connection:
            next_revision(connection)
            deleted = connection.execute(delete(table).where(table.c.updated_s < before_s))
            return int(deleted.rowcount)


def memory_needs(connection: Connection, *order: object) -> list[MemoryNeedRecord]:
    """Return all memory needs, sorted by the columns ``order``."""
    query = select(tables.memory_needs)
    if order:
        query = query.order_by(*order)  # type: ignore[arg-type]
    return [MemoryNeedRecord(**row._mapping) for row in connection.execute(query)]
