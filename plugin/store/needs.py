"""Stored nodes of a site, and the peak memory of similar past jobs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.records import MemoryNeedRecord, NodeRecord
from berth.plugin.store.statements import next_revision, put_all


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
