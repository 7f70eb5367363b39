"""SQL statements that several modules of the store use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Table,
    TextClause,
    func,
    literal,
    select,
    update,
)

from berth.pilot.progress import steps
from berth.plugin.store import tables
from berth.plugin.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


_PIECE = 500
"""The most values in one statement, since databases limit them."""
_PAGE = 1_000


def in_pieces(values: Collection[str]) -> Iterator[list[str]]:
    """Yield ``values`` in lists that are short enough for one SQL statement."""
    listed = list(values)
    for begin in range(0, len(listed), _PIECE):
        yield listed[begin : begin + _PIECE]


@cache
def names_of(record: Any) -> tuple[str, ...]:
    """Return the names of a record's fields: the columns of its table."""
    return tuple(field.name for field in fields(record))


def columns_of(record: Any) -> dict[str, Any]:
    """Return the values of a record (a dataclass of ``records``) by column name."""
    return {name: getattr(record, name) for name in names_of(record.__class__)}


def insert_into(database: Database, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT in the database's own dialect, which supports ON CONFLICT."""
    if database.path is not None:
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - the one that is used

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.insert(table)


def upsert(
    database: Database, table: Table, columns: Collection[str], keys: Sequence[str]
) -> postgresql.Insert | sqlite.Insert:
    """Return a statement that inserts rows of ``columns``, replacing rows with the same
    ``keys``.
    """
    insert = insert_into(database, table)
    fresh = {name: insert.excluded[name] for name in columns if name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=fresh)


def put_all(
    database: Database,
    table: Table,
    records: Collection[object],
    keys: Sequence[str],
    *,
    kept: Collection[str] = (),
    marks: Mapping[str, int] = MappingProxyType({}),
    revises: bool = False,
) -> None:
    """Store records in one transaction; rows with the same ``keys`` are replaced.

    ``kept``: columns that a stored row keeps; ``marks``: further columns; ``revises``: raise the
    store's revision, so that daemons read the change.
    """
    if not records:
        return
    # In a fixed order, so that two daemons that store the same rows do not wait for each other.
    rows = sorted(({**columns_of(record), **marks} for record in records), key=itemgetter(*keys))
    changed = [name for name in rows[0] if name not in kept]
    statement = upsert(database, table, changed, keys)
    pages = range(0, len(rows), _PAGE)
    with database.write() as connection:
        if revises:
            next_revision(connection)
        for begin in steps(f"pages of {table.name.replace('_', ' ')} stored", pages):
            connection.execute(statement, rows[begin : begin + _PAGE])


def distinct(connection: Connection, column: Column[str], *where: TextClause) -> list[str]:
    """Return the distinct values of an index's first column, with one look-up per value.

    ``where``: the condition of a partial index.
    """
    values: list[str] = []
    query = select(func.min(column)).where(*where)
    while True:
        value = connection.execute(query.where(column > values[-1]) if values else query).scalar()
        if value is None:
            return values
        values.append(value)


def count_of(connection: Connection, most: int, *where: ColumnElement[bool]) -> int:
    """Return the number of rows that meet a condition on an index, counting at most ``most``."""
    some = select(literal(1)).where(*where).limit(most).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def counter(connection: Connection, name: str) -> int:
    """Return the value of a named counter; 0 where it does not exist."""
    table = tables.counters
    value = connection.execute(
        select(table.c.value).where(table.c.name == name)
    ).scalar_one_or_none()
    return int(value or 0)


CHECKED = ("checked", "checked-everybody")


def set_unchecked(connection: Connection) -> None:
    """Note that learnt forecasts may no longer agree with all runs."""
    table = tables.counters
    connection.execute(update(table).where(table.c.name.in_(CHECKED)).values(value=-1))


def next_revision(connection: Connection) -> int:
    """Raise the store's revision by one and return it.

    Call it first in each transaction: its row lock puts the writers in order.
    """
    table = tables.counters
    connection.execute(
        update(table).where(table.c.name == "revision").values(value=table.c.value + 1)
    )
    return counter(connection, "revision")
