"""Statements that several parts of the store use."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, Table, select, update
from sqlalchemy.dialects import postgresql, sqlite

from berth.plugin.store import tables
from berth.plugin.store.database import Database


def insert_into(database: Database, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT of the database's own dialect, which knows ON CONFLICT."""
    dialect = sqlite if database.path is not None else postgresql
    statement: postgresql.Insert | sqlite.Insert = dialect.insert(table)
    return statement


def upsert(
    database: Database, table: Table, columns: Collection[str], keys: Sequence[str]
) -> postgresql.Insert | sqlite.Insert:
    """Insert rows of ``columns``, or replace those of the same ``keys``; takes many rows."""
    insert = insert_into(database, table)
    fresh = {name: insert.excluded[name] for name in columns if name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=fresh)


def counter(connection: Connection, name: str) -> int:
    """The value of a counter; 0 where it is not there."""
    table = tables.counters
    found = connection.execute(
        select(table.c.value).where(table.c.name == name)
    ).scalar_one_or_none()
    return int(found or 0)


def next_revision(connection: Connection) -> int:
    """Count one change: first of all in each transaction, so that its lock orders the writers."""
    table = tables.counters
    connection.execute(
        update(table).where(table.c.name == "revision").values(value=table.c.value + 1)
    )
    return counter(connection, "revision")
