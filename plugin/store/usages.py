"""Stored usage of jobs, as nodes and monitoring recorded it, by job, source, node and step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import delete, func, select

from berth.pilot.usage.record import Usage
from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.pruning import delete_before
from berth.plugin.store.statements import in_pieces, put_all


class Usages:
    """The table of what jobs used; it may hold jobs that accounting has not told of yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[Usage]) -> None:
        """Store records in one transaction; the same source, node and step again replaces."""
        put_all(
            self._database,
            tables.usages,
            records,
            ("cluster", "job_id", "source", "node", "step", "reporter"),
        )

    def of_jobs(self, cluster: str, job_ids: Collection[str]) -> dict[str, list[Usage]]:
        """Return what is recorded of each of these jobs."""
        table = tables.usages
        usages: dict[str, list[Usage]] = {}
        for piece in in_pieces(job_ids):
            query = select(table).where(table.c.cluster == cluster, table.c.job_id.in_(piece))
            for row in self._database.rows(query):
                usages.setdefault(row.job_id, []).append(Usage(**row._mapping))
        return usages

    def rename(self, cluster: str, job_ids: Mapping[str, str]) -> None:
        """Give records of the jobs that are keys in ``job_ids`` the ids that are its values."""
        known = self.of_jobs(cluster, job_ids)
        renamed = [
            replace(usage, job_id=job_ids[job_id])
            for job_id, usages in known.items()
            for usage in usages
        ]
        self.put(renamed)
        table = tables.usages
        with self._database.write() as connection:
            for piece in in_pieces(known):
                connection.execute(
                    delete(table).where(table.c.cluster == cluster, table.c.job_id.in_(piece))
                )

    def lacking_since(self, source: str, since_s: float) -> dict[str, int]:
        """Return what records of this source lack, with their number, since Unix time ``since_s``;
        the empty text: nothing."""
        table = tables.usages
        query = (
            select(table.c.lacks, func.count())
            .where(table.c.received_s >= since_s, table.c.source == source)
            .group_by(table.c.lacks)
        )
        return {lacks: int(count) for lacks, count in self._database.rows(query)}

    def prune(self, before_s: float) -> int:
        """Delete what was taken in before Unix time ``before_s``; return its number."""
        return delete_before(self._database, tables.usages.c.received_s, before_s)
