"""Stored outcomes: how the jobs ended for which Berth made decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

from sqlalchemy import Column, Select, select, tuple_

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.records import EndedJob, OutcomeRecord
from berth.plugin.store.statements import (
    count_of,
    distinct,
    in_pieces,
    newest_end_s,
    put_all,
)

RECORD = tuple(tables.outcomes.c[name] for name in OutcomeRecord.__slots__)
"""The columns of an ``OutcomeRecord``."""
_ENDED = tuple(tables.outcomes.c[name] for name in EndedJob._fields)
_PAGE = 1_000


class Outcomes:
    """The table of job outcomes, by cluster and job id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[OutcomeRecord]) -> None:
        """Store records in one transaction; a stored job of the same cluster and job id is
        replaced.
        """
        put_all(self._database, tables.outcomes, records, ("cluster", "job_id"))

    def of_job(self, job_id: str, *, cluster: str | None = None) -> OutcomeRecord | None:
        """Return the outcome of a job, in any cluster if ``cluster`` is None; None: not stored."""
        table = tables.outcomes
        query = select(*RECORD).where(table.c.job_id == job_id).limit(1)
        if cluster is not None:
            query = query.where(table.c.cluster == cluster)
        return next(iter(self._select(query)), None)

    def of_decision(self, decision: str) -> list[OutcomeRecord]:
        """Return the outcomes of the jobs for which a decision was made (several for a job
        array).
        """
        return self.of_decisions([decision]).get(decision, [])

    def of_decisions(self, decisions: Collection[str]) -> dict[str, list[OutcomeRecord]]:
        """Return outcomes by the id of the decision that their jobs were placed by."""
        table = tables.outcomes
        by_decision: dict[str, list[OutcomeRecord]] = {}
        for piece in in_pieces(decisions):
            query = select(*RECORD).where(table.c.decision.in_(piece)).order_by(table.c.job_id)
            for record in self._select(query):
                by_decision.setdefault(record.decision or "", []).append(record)
        return by_decision

    def between(
        self, since_s: float, until_s: float, *, cluster: str | None = None
    ) -> Iterator[OutcomeRecord]:
        """Yield jobs that ended between two Unix times (the second excluded), ordered by end time.

        Reads in pages, so that a history of any length takes little memory.
        """
        named = [cluster] if cluster is not None else self._clusters()
        pages = (self._of_cluster(name, since_s, until_s) for name in named)
        return merge(*pages, key=attrgetter("end_s", "cluster"))

    def newest(self, since_s: float, until_s: float, most: int) -> list[EndedJob]:
        """Return the last ``most`` jobs that ended between two Unix times (the second excluded),
        oldest first.

        Reads only the columns of EndedJob, in one statement.
        """
        rows = self._database.rows(_newest(_ENDED, since_s, until_s, most))
        return [EndedJob._make(row) for row in reversed(rows)]

    def last(self, since_s: float, until_s: float, most: int) -> list[OutcomeRecord]:
        """Return the last ``most`` jobs that ended between two Unix times (the second excluded),
        oldest first, with all columns.
        """
        return self._select(_newest(RECORD, since_s, until_s, most))[::-1]

    def count(self, since_s: float, until_s: float, most: int) -> int:
        """Return the number of jobs that ended between two Unix times, counting at most ``most``;
        reads only the index.
        """
        ends = tables.outcomes.c.end_s
        with self._database.read() as connection:
            return count_of(connection, most, ends >= since_s, ends < until_s)

    def _of_cluster(self, cluster: str, since_s: float, until_s: float) -> Iterator[OutcomeRecord]:
        """Yield a cluster's outcomes, read in pages, each of which begins at the last end time of
        the page before.
        """
        table = tables.outcomes
        order = (table.c.end_s, table.c.job_id)
        query = select(*RECORD).where(table.c.cluster == cluster, table.c.end_s < until_s)
        query = query.order_by(*order).limit(_PAGE)
        page = query.where(table.c.end_s >= since_s)
        while True:
            records = self._select(page)
            yield from records
            if len(records) < _PAGE:
                return
            last = records[-1]
            beyond = tuple_(*order) > tuple_(last.end_s, last.job_id)
            page = query.where(table.c.end_s >= last.end_s, beyond)

    def _clusters(self) -> list[str]:
        with self._database.read() as connection:
            return distinct(connection, tables.outcomes.c.cluster)

    def newest_end_s(self, cluster: str) -> float | None:
        """Return the latest end of a stored job of this cluster, in Unix time; None: none is."""
        return newest_end_s(self._database, tables.outcomes, cluster)

    def prune(self, before_s: float) -> int:
        """Delete outcomes of jobs that ended before Unix time ``before_s``; return their number."""
        return delete_before(self._database, tables.outcomes.c.end_s, before_s)

    def _select(self, query: Select[Any]) -> list[OutcomeRecord]:
        return [OutcomeRecord(*row) for row in self._database.rows(query)]


def _newest(
    columns: Sequence[Column[Any]], since_s: float, until_s: float, most: int
) -> Select[Any]:
    """Return a query for jobs that ended between two Unix times (the second excluded), newest
    first.
    """
    table = tables.outcomes
    order = (table.c.end_s.desc(), table.c.cluster.desc(), table.c.job_id.desc())
    between = select(*columns).where(table.c.end_s >= since_s, table.c.end_s < until_s)
    return between.order_by(*order).limit(most)
