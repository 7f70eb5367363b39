"""Statements that several parts of the store use."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, Table, delete, func, select, tuple_, update

from berth.pilot.progress import is_shown, report
from berth.plugin.store import tables
from berth.plugin.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

PIECE = 1_000
"""Rows that are deleted in one transaction."""


def insert_into(database: Database, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT of the database's own dialect, which knows ON CONFLICT."""
    if database.path is not None:
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - the one that is used

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.insert(table)


def upsert(
    database: Database, table: Table, columns: Collection[str], keys: Sequence[str]
) -> postgresql.Insert | sqlite.Insert:
    """Insert rows of ``columns``, or replace those of the same ``keys``; takes many rows."""
    insert = insert_into(database, table)
    fresh = {name: insert.excluded[name] for name in columns if name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=fresh)


def delete_before(database: Database, column: Column[float], before_s: float) -> int:
    """Delete rows whose ``column`` is less than ``before_s``; gives how many.

    Some at a time, each in a transaction of its own with as long a pause after it: who writes
    decisions meanwhile never waits long, and what is done stays done where this is interrupted.
    """
    table, count, there = column.table, 0, 0
    assert isinstance(table, Table)  # noqa: S101
    keys = tuple_(*table.primary_key)
    old = select(*table.primary_key).where(column < before_s).order_by(column).limit(PIECE)
    if is_shown():
        with database.read() as connection:
            query = select(func.count()).select_from(table).where(column < before_s)
            there = int(connection.execute(query).scalar_one())
    while True:
        begun_s = time.monotonic()
        with database.write() as connection:
            found = connection.execute(delete(table).where(keys.in_(old))).rowcount
        count += found
        report(f"{table.name} deleted", count, there if found == PIECE else count)
        if found < PIECE:
            return count
        time.sleep(time.monotonic() - begun_s)


def distinct(connection: Connection, column: Column[str]) -> list[str]:
    """The values of an index's first column: a look-up for each, however many rows there are."""
    found: list[str] = []
    query = select(func.min(column))
    while True:
        value = connection.execute(query.where(column > found[-1]) if found else query).scalar()
        if value is None:
            return found
        found.append(value)


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
