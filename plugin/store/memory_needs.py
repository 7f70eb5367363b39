"""Memory that past jobs needed, by what a new job may be matched by."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from berth.plugin.store import tables
from berth.plugin.store.database import Database
from berth.plugin.store.records import MemoryNeedRecord
from berth.plugin.store.statements import next_revision, upsert


class MemoryNeeds:
    """One row for each key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, records: Sequence[MemoryNeedRecord]) -> None:
        """Store a batch in one transaction; what is there of the same keys is replaced."""
        if not records:
            return
        rows = [{name: getattr(r, name) for name in r.__slots__} for r in records]
        rows.sort(key=lambda row: row["digest"])
        statement = upsert(self._database, tables.memory_needs, rows[0], ("digest",))
        with self._database.write() as connection:
            next_revision(connection)
            connection.execute(statement, rows)

    def all(self) -> list[MemoryNeedRecord]:
        """Every one, by user."""
        table = tables.memory_needs
        with self._database.read() as connection:
            return memory_needs(connection, table.c.user, table.c.digest)

    def prune(self, before_s: float) -> int:
        """Delete those that were not renewed since Unix time ``before_s``; gives how many."""
        table = tables.memory_needs
        with self._database.write() as connection:
            next_revision(connection)
            found = connection.execute(delete(table).where(table.c.updated_s < before_s))
            return int(found.rowcount)


def memory_needs(connection: Connection, *order: object) -> list[MemoryNeedRecord]:
    """All of them."""
    query = select(tables.memory_needs)
    if order:
        query = query.order_by(*order)  # type: ignore[arg-type]
    return [MemoryNeedRecord(**row._mapping) for row in connection.execute(query)]
